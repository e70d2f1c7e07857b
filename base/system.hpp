// Small things that the system gives to hvdrun: pipes, random names, threads. For any thread.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <thread>

namespace hvdrun {

struct Pipe {
  Fd read;
  Fd write;
};

// Makes a pipe. Both ends are close-on-exec. Error: there are too many descriptors.
Result<Pipe> make_pipe();

Result<void> set_nonblocking(int fd);

// Returns whether a write failed because the kernel had no memory for it just now (ENOMEM of a
// pipe, ENOBUFS of a socket). It may be tried again.
bool is_short_of_memory(int errno_value);

// Ends this process at once with kExitLauncher, after a line on stderr: "hvdrun: error: n1: cannot
// make an eventfd: Too many open files (…; raise ulimit -n)". For what neither the launcher nor an
// agent can do without. The others notice that it has gone, and clean up.
[[noreturn]] void end_process(const std::string& what, int errno_value);

// Returns an unguessable name or key: `bytes` random bytes, at most 256, as 2 × bytes hexadecimal
// digits. Ends the process if the system has no random bytes.
std::string random_hex(std::size_t bytes);

// Gives this process another name, in all ways in which ps and pkill look at it: its command line
// is that name too, as far as there is room.
void set_process_name(const std::string& name);

// Starts a thread as common/thread.hpp does: signals are for the loop's thread. Error: "cannot
// start the thread that {does}: …".
Result<std::thread> start_thread(const std::string& does, std::function<void()> body);

}  // namespace hvdrun
