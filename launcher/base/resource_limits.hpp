// A process's resource limits (ulimit): taking them along, and setting them.
//
// Source: getrlimit(2).
#pragma once

#include <vector>

#include <sys/resource.h>

namespace hvdrun {

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

}  // namespace hvdrun
