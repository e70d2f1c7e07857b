// What hvdrun's subcommands share: reading the words of those with few options, printing, and
// hvdrun's own name in a script. For the main thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns the name of this hvdrun for a script that runs elsewhere: "hvdrun" if the caller's PATH
// leads to this file in a folder that every PATH has, otherwise the file's path. `module purge` in
// the script would remove what a module has put into PATH.
std::string hvdrun_name(const Environment& environment);

struct CommandFlag {
  std::string_view spelling;  // "--json"
  bool* value;                // set to true
};

struct CommandValue {
  std::string_view spelling;          // "--rank", or "-n"
  std::optional<std::string>* value;  // set to the word after it, or to what follows "=" or "-n"
};

// Returns the words that are not options. Options may be anywhere before "--"; after it all words
// are operands. Error (kExitUsage): an option that `command` ("hvdrun jobs") does not have, with
// the nearest name; a value that is missing.
Result<std::vector<std::string>> take_flags(std::string_view command,
                                            const std::vector<std::string>& args,
                                            const std::vector<CommandFlag>& flags,
                                            const std::vector<CommandValue>& values = {});

// Prints the text on stdout and flushes it. Returns kExitOk, or kExitLauncher if it cannot be
// written.
int print_text(std::string_view text);

}  // namespace hvdrun
