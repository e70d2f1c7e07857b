// Lists the signals that hvdrun passes on to the ranks, and says who has sent one. Functions for
// any thread. They cannot fail: a sender that has ended is not SLURM.
#pragma once

#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Returns the signals that mean nothing to hvdrun itself: USR1, USR2, URG, ALRM, PWR and those of
// real time. They are for the program.
const std::vector<int>& passed_signals();

// Returns whether the launcher takes it as a request to stop the job: INT, TERM and HUP.
bool is_stop_signal(int signal);

// Returns the signals that SLURM may send to the processes of a step and that are for the ranks:
// all but those of job control, of faults, SIGCHLD and SIGPIPE. SIGKILL and SIGSTOP cannot be seen.
const std::vector<int>& step_signals();

// Returns whether this process is SLURM's (slurmstepd), which sends a job its signals.
bool is_slurm(pid_t process);

}  // namespace hvdrun
