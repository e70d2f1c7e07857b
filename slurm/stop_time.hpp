// How long a job may take to end after a SIGTERM, by what SLURM says. The text is read by pure
// functions; time_after_sigterm() asks SLURM and blocks for it, on the caller's thread.
//
// SLURM sends SIGTERM at scancel, at the time limit and at preemption, and SIGKILL after KillWait.
// A SIGTERM while the job runs on is a warning (sbatch --signal=B:TERM@300, preemption's grace
// time): then there is also the time until the job's end.
#pragma once

#include "base/environment.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace hvdrun {

// Returns the KillWait of what `scontrol show config` prints; nullopt if it has none.
std::optional<std::chrono::seconds> kill_wait_in(std::string_view config);

// Returns the time for the job's ranks. `left`: until the end of a job that runs on; nullopt if it
// is being ended, or this is not known.
std::chrono::milliseconds stop_time(std::optional<std::chrono::seconds> kill_wait,
                                    std::optional<std::chrono::seconds> left);

// Returns the time for the ranks of the SLURM job that this process runs in, less what the question
// takes. Returns nullopt outside a job. SLURM's default applies where SLURM does not answer.
std::optional<std::chrono::milliseconds> time_after_sigterm(const Environment& environment);

}  // namespace hvdrun
