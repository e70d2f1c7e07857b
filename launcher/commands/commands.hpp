// The table of hvdrun's subcommands.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Runs a subcommand. `args` are the words after its name. Returns hvdrun's exit code.
using Command = Result<int> (*)(const std::vector<std::string>& args,
                                const Environment& environment);

// Returns null if there is no subcommand of that name.
Command find_command(std::string_view name);

}  // namespace hvdrun
