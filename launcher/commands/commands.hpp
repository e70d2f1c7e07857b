// What to call this hvdrun by in a script that runs elsewhere.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// "hvdrun" where the caller's PATH leads to this very file in a folder that every PATH has, else
// the file's path: what a module has put into PATH, `module purge` takes out again.
std::string hvdrun_name(const Environment& environment);

// The words behind a subcommand that has few options, and what subcommands print.

struct CommandFlag {
  std::string_view spelling;  // "--json"
  bool* value;                // set to true
};

// The words that are no options, which may stand anywhere; behind "--" all are. Error (kExitUsage):
// an option that `command` ("hvdrun jobs") does not have, with the nearest name.
Result<std::vector<std::string>> take_flags(std::string_view command,
                                            const std::vector<std::string>& args,
                                            const std::vector<CommandFlag>& flags);

// "hvdrun: TEXT" on stderr.
void say_note(std::string_view text);

// Onto stdout, at once; kExitOk, or kExitLauncher where it cannot be written.
int print_text(std::string_view text);

// hvdrun's subcommands: what they are called, and what runs them.

// `args` are the words behind the subcommand; the value is hvdrun's exit code.
using Command = Result<int> (*)(const std::vector<std::string>& args,
                                const Environment& environment);

// Null: no subcommand is called so.
Command find_command(std::string_view name);

// hvdrun templates: which templates of batch scripts there are, and what is in one.

// `args` are the words behind "templates": nothing, or show NAME. Prints; returns the exit code.
// Errors (kExitUsage): other words, no such template, a template that is wrong.
Result<int> run_templates(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
