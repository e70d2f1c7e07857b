// The table of hvdrun's own options. It drives the command line, --help, config files and
// --explain. Tests compare the manual page, the bash completion and docs/reference/config.md with
// it.
#pragma once

#include "cli/option.hpp"

#include <span>

namespace hvdrun::cli {

// Returns the options in the order of --help: group by group.
std::span<const Option> option_table();

}  // namespace hvdrun::cli
