// What an agent and its guard send each other: signals, some with a value (sigqueue(3)). They
// cannot fail; if the other one is gone, nothing is sent.
#pragma once

#include <chrono>
#include <optional>

#include <sys/types.h>

namespace hvdrun {

// To the guard: the agent exits. The value: its exit code.
int exit_signal();
// To the guard: how long the agent may live on. The value: milliseconds; -1: without limit.
int time_left_signal();
// To the agent: the guard's parent is gone. The agent answers with report_time_left().
int question_signal();

// These are the agent's. nullopt: it has not noticed that the launcher has gone.
void report_exit(pid_t guard, int code);
void report_time_left(pid_t guard, std::optional<std::chrono::milliseconds> time);

}  // namespace hvdrun
