// hvdrun's subcommands: what they are called, and what runs them.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// `args` are the words behind the subcommand; the value is hvdrun's exit code.
using Command = Result<int> (*)(const std::vector<std::string>& args,
                                const Environment& environment);

// Null: no subcommand is called so.
Command find_command(std::string_view name);

}  // namespace hvdrun
