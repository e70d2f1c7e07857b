// What the system gives to hvdrun: pipes, the name of this machine, keys, limits, threads.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

namespace hvdrun {

struct Pipe {
  Fd read;
  Fd write;
};

// A pipe whose both ends are close-on-exec.
Result<Pipe> make_pipe();

Result<void> set_nonblocking(int fd);

// An unguessable name or key: `bytes` random bytes, at most 256, as 2 × bytes hexadecimal digits.
std::string random_hex(std::size_t bytes);

// A process's resource limits (ulimit): taking them along, and setting them.
//
// Source: getrlimit(2).

struct ResourceLimit {
  int resource = 0;  // RLIMIT_…
  rlimit value{};
};

// This process's limits that ranks on other hosts are to have too: of core files, data, files,
// descriptors, stack and address space, and those that login hosts tend to keep low and other hosts
// not: of locked memory, processes and CPU time.
std::vector<ResourceLimit> limits_that_travel();

// Sets a limit of this process, or as much of it as it may have. Of locked memory, processes and
// CPU time nothing is taken away. Only makes async-signal-safe calls.
void set_limit(const ResourceLimit& limit);

// Gives this process another name, for all ways in which ps and pkill look at it: its command line
// is that name too, as far as there is room.
void set_process_name(const std::string& name);

// Starts a thread that takes no signals: they are for the loop's. Error: "cannot start the thread
// that {does}: …".
Result<std::thread> start_thread(const std::string& does, std::function<void()> body);

}  // namespace hvdrun
