// Whether another process runs, is stopped or has ended, by /proc. For any thread; takes no lock of
// the process.
//
// Source: proc(5).
#pragma once

#include <sys/types.h>

namespace hvdrun {

// Returns the letter of the process's state: 'R', 'S', 'D', 'T' (stopped by a signal), 't' (by a
// debugger), 'Z' (it has ended), … Returns 0 if there is none that this process sees.
char process_state(pid_t pid);

}  // namespace hvdrun
