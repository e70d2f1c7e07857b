// Which file a program's name stands for.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <filesystem>
#include <string>

namespace hvdrun::cli {

// Looks `name` up as a shell does: with a slash it is a path from `working_directory`, else it is
// searched for in the caller's PATH (an unset one: /bin and /usr/bin). The answer is absolute.
// Errors: kExitNotFound, or kExitNotExecutable for a folder and a file that may not be executed;
// they say what to type instead where the file stands in the working directory.
Result<std::filesystem::path> find_program(const std::string& name, const Environment& environment,
                                           const std::filesystem::path& working_directory);

}  // namespace hvdrun::cli
