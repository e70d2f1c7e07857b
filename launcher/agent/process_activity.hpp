// What a rank's process is doing: whether it computes, or the system call that it waits in. Reads
// /proc. Functions for any thread; a process that has ended, or that cannot be read, has no values.
//
// Source: proc(5): /proc/PID/stat, /proc/PID/syscall, /proc/PID/wchan, /proc/PID/task/TID/children.
#pragma once

#include "model/report.hpp"

#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvdrun {

// Returns what the process does. If it is a shell or another program that waits for its only child,
// returns what that child does. `seconds` stays 0: /proc has no exact time of a start.
RankActivity activity_of(pid_t pid);

// Returns the words for the content of /proc/PID/syscall: "futex", "system call 999", "computing";
// empty if `text` is empty or none of these. `wait_channel`: the content of /proc/PID/wchan.
std::string system_call_in(const std::string& text, std::string_view wait_channel);

}  // namespace hvdrun
