// Finds out which signal a batch job asks SLURM to send before its time limit, and whether it
// reaches only steps of srun (sbatch(1), --signal without "B:"). Plain functions for any thread.
// They read /proc and the batch script. If they cannot read it, they find no signal.
#pragma once

#include "base/environment.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

// Returns the value of a script's last "#SBATCH --signal" ("USR1@90"); "" if there is none.
std::string signal_option_of(std::string_view script);

// Returns that of the batch script that this process runs in, or $SBATCH_SIGNAL, which replaces it.
std::string find_signal_option(const Environment& environment);

// Returns whether this process has replaced the batch script, with exec. Then only SLURM has it.
bool has_replaced_batch_script(const Environment& environment);

}  // namespace hvdrun
