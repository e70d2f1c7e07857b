// The program to run: whether there is one, and which file its name means. For any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace hvdrun::cli {

// Checks that a program is given, and that its words can be passed on to it. `usage` is what to
// type instead.
Result<void> check_command(const std::vector<std::string>& command, const std::string& usage);

// The words around the program's name in the line that was typed. Messages show the line to type
// with them.
struct TypedLine {
  std::string before = "hvdrun …";
  std::string after;  // with a blank before it
};

// Looks up `name` as a shell does: with a slash it is a path from `working_directory`, otherwise it
// is searched for in the caller's PATH (if unset: /bin and /usr/bin). Returns an absolute path.
// Errors: kExitNotFound, or kExitNotExecutable for a folder or a file that may not be executed.
// They say what to type instead if the file is in the working directory, if the name is a variable
// ("FOO=1") or a whole command in quotes, and if there is python3, but no python.
Result<std::filesystem::path> find_program(const std::string& name, const Environment& environment,
                                           const std::filesystem::path& working_directory,
                                           const TypedLine& line = {});

// Refuses a script that the kernel cannot start because of how it was saved: its first line ends
// with a carriage return (Windows), or a byte order mark comes before it. Error:
// kExitNotExecutable.
Result<void> check_first_line(const std::string& name, const std::filesystem::path& program);

}  // namespace hvdrun::cli
