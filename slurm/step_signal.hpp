// Finds out which signal a batch job asks SLURM to send before its time limit, if that signal
// reaches only steps of srun (sbatch(1), --signal without "B:"). Plain functions for any thread.
// They read /proc and the batch script. If they cannot read it, they find no signal.
#pragma once

#include "base/environment.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

// Returns the value of a script's last "#SBATCH --signal" ("USR1@90"). Returns "" if there is none,
// or if the batch shell gets the signal ("B:USR1@90").
std::string step_signal_of(std::string_view script);

// Returns that of the batch script that this process runs in, or $SBATCH_SIGNAL, which replaces it.
std::string find_step_signal(const Environment& environment);

// Returns whether this process has replaced the batch script, with exec. Then only SLURM has it.
bool has_replaced_batch_script(const Environment& environment);

}  // namespace hvdrun
