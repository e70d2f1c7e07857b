// Lists the signals that hvdrun passes on to the ranks. Functions for any thread. They cannot fail.
#pragma once

#include <vector>

namespace hvdrun {

// Returns the signals that mean nothing to hvdrun itself: USR1, USR2, URG, ALRM, PWR and those of
// real time. They are for the program.
const std::vector<int>& passed_signals();

// Returns whether the launcher takes it as a request to stop the job: INT, TERM and HUP.
bool is_stop_signal(int signal);

// Returns the signals that a scheduler may send to the processes of a step and that are for the
// ranks: all but those of job control, of faults, SIGCHLD and SIGPIPE. SIGKILL and SIGSTOP cannot
// be seen.
const std::vector<int>& step_signals();

}  // namespace hvdrun
