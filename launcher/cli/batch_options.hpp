// The options of sbatch and salloc, beside hvdrun's own: what to ask SLURM for, and what to do with
// the script. In docs/slurm.md, `hvdrun sbatch --help`, and, those that are settings, in config
// files. Where SLURM has an option of the name it means the same (sbatch(1)).
#pragma once

#include "cli/option_table.hpp"

namespace hvdrun::cli {

// In the order of --help: group by group.
std::span<const Option> batch_option_table();

// Whether it is about a script or a job that runs one: nothing that an allocation has.
bool is_of_scripts(const Option& option);

}  // namespace hvdrun::cli
