// The names of system calls that programs wait in, and what an interruption does to each. Pure
// functions, for any thread.
//
// Source: syscalls(2); signal(7), "Interruption of system calls".
#pragma once

#include <cstdint>
#include <string>

namespace hvdrun {

// Returns "futex", "system call 999".
std::string system_call_name(long number);

// Returns whether the call returns EINTR when the thread is stopped and runs on, although no
// handler ran.
bool ends_with_eintr(long number);

// Returns whether the call may return before it has moved all bytes when the thread is stopped.
// Such a thread must be left alone. `arguments`: the six of the call.
bool may_move_less(long number, const std::uint64_t* arguments);

}  // namespace hvdrun
