// The short names of signals. It does what sigabbrev_np(3) does, which glibc 2.28 lacks. A pure
// function, any thread.
#pragma once

namespace common {

// Returns "TERM" for SIGTERM, and so on; nullptr for a number without a name, as of a real-time
// signal.
const char* signal_abbreviation(int signal);

}  // namespace common
