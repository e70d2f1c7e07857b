// A process's resource limits (ulimit; getrlimit(2)), umask and nice value: which of them ranks on
// other hosts get, and how they are set.
#pragma once

#include <optional>
#include <vector>

#include <sys/resource.h>

namespace hvdrun {

struct ResourceLimit {
  int resource = 0;  // RLIMIT_…
  rlimit value{};
};

// Returns the limits of this process that ranks on other hosts get, too. These are of core files,
// data, file sizes, descriptors, stack and address space. Those of locked memory, processes and CPU
// time are often lower on login hosts than elsewhere.
std::vector<ResourceLimit> limits_that_travel();

// Sets a limit of this process, as far as the system allows. Never lowers the limits of locked
// memory, processes and CPU time. Makes only async-signal-safe calls.
void set_limit(const ResourceLimit& limit);

// Sets the umask of this process if one is given, and raises the nice value of this thread, and of
// those that it starts later, to `niceness`. Cannot fail.
void take_over(std::optional<int> umask, int niceness);

}  // namespace hvdrun
