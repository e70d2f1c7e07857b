// What `accelerate config` has written, as the variables that `accelerate launch` makes of it.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <filesystem>
#include <string_view>

namespace hvdrun::cli {

// The file that accelerate reads when it is given none: $HF_HOME/accelerate/default_config.yaml,
// else below $XDG_CACHE_HOME/huggingface or ~/.cache/huggingface. Empty: there is no home.
//
// Source: Accelerate, commands/config/config_args.py.
std::filesystem::path accelerate_config(const Environment& environment);

// The variables for that file's text. hvdrun decides on hosts, ranks and devices: what the file
// says of them does not count. Error: a line that is no "name: value"; says its number.
//
// Source: Accelerate, utils/launch.py.
Result<Environment> accelerate_variables(std::string_view text);

}  // namespace hvdrun::cli
