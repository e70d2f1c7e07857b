// The commands in a shell's text, as far as they can be seen without running it: those of `bash -c`
// and of scripts. It knows quotes, comments, here-documents, assignments, branches and functions;
// it expands nothing. A pure function, for any thread. It cannot fail: what it cannot follow, it
// skips.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

struct ShellCommand {
  std::vector<std::string> words;  // without quotes, and assignments before it; "$NAME" stays
  bool is_certain = true;          // false: it may not run
};

// Returns whether the word sets a variable: "NAME=VALUE", "NAME+=VALUE".
bool is_assignment(std::string_view word);

// Returns the commands in their order, up to a command after which none runs (`exec`, `exit`). A
// command is certain unless it is in a branch or a function, follows "||" or a test with "&&", or
// an exit without an error that may not run.
std::vector<ShellCommand> commands_of(std::string_view text);

}  // namespace hvdrun::cli
