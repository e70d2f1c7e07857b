// What an agent reports to its guard, by signals with a value (sigqueue(3)). For the agent's loop
// thread. They cannot fail; if the guard is gone, nothing is sent.
#pragma once

#include <chrono>

#include <sys/types.h>

namespace hvdrun {

// The agent has begun to end its ranks. The value: the milliseconds that it may take.
int end_begins_signal();
// The agent exits. The value: its exit code.
int exit_signal();

void report_end_begins(pid_t guard, std::chrono::milliseconds within);
void report_exit(pid_t guard, int code);

}  // namespace hvdrun
