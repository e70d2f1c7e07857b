// The end of a process of ours after an exception that nothing has caught: a fault of ours, or no
// memory. Without it the user sees "terminate called …" and no reason. For main(), before there are
// other threads. It cannot fail.
#pragma once

namespace common {

// From now on, an exception that no code of this process catches, in any thread, ends it with
// `exit_code` and a line on stderr: "hvdrun: error: n1: hvdrun-agent has a fault: …". Child
// processes without exec(2) inherit this.
void report_uncaught(int exit_code);

}  // namespace common
