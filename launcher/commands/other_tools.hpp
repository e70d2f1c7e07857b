// Options of other tools that users give to hvdrun's subcommands: those of squeue, scancel, sacct,
// top, tail, kubectl, docker, journalctl, py-spy and hyperfine; and of hvdrun's other ones.
// Constants and a pure function, for any thread. Those that start programs have their own table
// (cli/foreign_options.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct OtherToolsOption {
  std::string_view option;  // "--tail", of the word "--tail=5"
  std::string_view tool;    // "kubectl"
  std::string instead;      // what to type: "squeue --me -n foo"
};

// Returns the tool whose option the word is, which is among the arguments of `command` ("hvdrun
// jobs"). Returns nullopt if the tables have none.
std::optional<OtherToolsOption> option_of_other_tool(std::string_view command,
                                                     std::string_view word,
                                                     const std::vector<std::string>& args);

// Returns the command of hvdrun that has the option, and is another one than `command`: "hvdrun
// top" for "--once". Returns nullopt if none has it.
std::optional<std::string_view> other_command_with(std::string_view option,
                                                   std::string_view command);

}  // namespace hvdrun
