// The commands that a command line starts in the end: after `env`, `uv run`, `apptainer exec`,
// `bash -c` and the like, and in the shell scripts that it names. Pure functions, for any thread,
// but for the scripts that are read by `read_script`. They cannot fail: what they do not know, they
// take for a program.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

struct StartedCommand {
  std::vector<std::string> words;
  std::vector<std::string> before;  // the words of the same line before it
  bool in_shell = false;            // it is in the text of a shell: of a script, or of `bash -c`
  std::string script;               // the shell script that has it; empty: none
  bool is_certain = true;           // false: it may not run, or be an argument of the program
};

// Returns the text of a shell script; nullopt if the file is none.
using ReadScript = std::function<std::optional<std::string>(const std::string& file)>;

// Returns the command itself, and each one that it starts as far as its words show that. After an
// option that may have a value or not, each word that may be the program is taken for it, but not
// for certain.
std::vector<StartedCommand> started_commands(const std::vector<std::string>& command,
                                             const ReadScript& read_script);

// Returns whether the command is a shell that reads its commands from a terminal or from stdin: it
// has neither a text nor a script.
bool is_shell_alone(const std::vector<std::string>& command);

// Returns whether a program of this name is a shell.
bool is_shell(std::string_view name);

// Returns whether this is a shell, or a program that starts the one that its words name.
bool is_wrapper(std::string_view name);

// Returns whether the list, of words with blanks between, has the word.
bool has_word(std::string_view list, std::string_view word);

// Returns the name of a program without its folder.
std::string_view base_name(std::string_view path);

}  // namespace hvdrun::cli
