// The timeline's end at hvd_shutdown.
#pragma once

#include "session/session.hpp"

namespace libhvd {

// Writes the timeline, if one runs, with all ranks that come within a time; else this rank's own
// part. Trouble is told on stderr only: the program has done its work. The caller holds
// Process::calls.
void end_timeline(Session& session);

}  // namespace libhvd
