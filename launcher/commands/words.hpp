// The words behind a subcommand that has few options, and what subcommands print.
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

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

}  // namespace hvdrun
