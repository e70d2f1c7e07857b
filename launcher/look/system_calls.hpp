// The names of system calls that programs wait in, and what an interruption does to each. Pure
// functions, for any thread.
//
// Source: syscalls(2); signal(7), "Interruption of system calls".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hvdrun {

// Returns "futex", "system call 999".
std::string system_call_name(long number);

// Returns the call that a thread is in. One with a time limit continues as restart_syscall(2) after
// an interruption; then the kernel's function in which the thread waits says which one it was.
long resumed_call(long number, std::string_view wait_channel);

// Returns whether a call of this name continues as restart_syscall(2).
bool is_restarted(std::string_view name);

// Returns whether the call returns EINTR when the thread is stopped and runs on, although no
// handler ran.
bool ends_with_eintr(long number);

// Returns whether the call may return before it has moved all bytes when the thread is stopped.
// Such a thread must be left alone. `arguments`: the six of the call.
bool may_move_less(long number, const std::uint64_t* arguments);

// Returns whether the thread waits for the server of a FUSE file system, by the kernel's function
// in which it waits. A stop sends the server an interrupt; some end the call with EINTR then. Such
// a thread must be left alone, too.
bool awaits_fuse(std::string_view wait_channel);

// Returns whether the thread waits for a page that is read from a file or from swap.
bool awaits_page(std::string_view wait_channel);

}  // namespace hvdrun
