// The table of the options of sbatch and salloc, in addition to hvdrun's own: what to request from
// SLURM, and what to do with the script. An option that SLURM has too means the same (sbatch(1)).
// Tests compare the manual page, docs/reference/config.md and the bash completion with it.
#pragma once

#include "cli/option.hpp"

#include <span>

namespace hvdrun::cli {

// Returns the options in the order of --help: group by group.
std::span<const Option> batch_option_table();

// Returns whether the option is about a script or the job that runs it, and so has no meaning for
// an allocation.
bool is_of_scripts(const Option& option);

}  // namespace hvdrun::cli
