// Joining the job, leaving it, and coming to its next generation: what hvd_init,
// hvd_shutdown and hvd_reform do, and what happens at the process's exit and in a forked child. Any
// thread; each takes Process::calls.
#pragma once

#include "session/session.hpp"

#include <hvd/hvd.h>

namespace libhvd {

// Opens the session. `what`: the function that is called.
hvd_status join_job(const char* what, const StartOptions& wanted);
// Ends it, with a goodbye to the others.
hvd_status leave_job(const char* what);
// Ends it, and opens the one of the next generation.
hvd_status come_to_next_generation(const char* what);

}  // namespace libhvd
