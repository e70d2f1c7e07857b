// Reads what `accelerate config` has written, as the variables that `accelerate launch` makes of
// it. Pure functions, for any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <filesystem>
#include <string_view>

namespace hvdrun::cli {

// Returns the file that accelerate reads by default: $HF_HOME/accelerate/default_config.yaml, else
// below $XDG_CACHE_HOME/huggingface or ~/.cache/huggingface. Returns an empty path if none of the
// three variables is set.
//
// Source: Accelerate, commands/config/config_args.py.
std::filesystem::path accelerate_config(const Environment& environment);

// Returns the variables for that file's text. hvdrun chooses hosts, ranks and devices, so what the
// file says of them is ignored. Error: a line that is not "name: value"; it has the line's number.
//
// Source: Accelerate, utils/launch.py.
Result<Environment> accelerate_variables(std::string_view text);

}  // namespace hvdrun::cli
