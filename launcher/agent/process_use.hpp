// What the processes of each rank use of the host: processor time and memory. A pure function of
// what processes_below() has seen.
#pragma once

#include "agent/process_tree.hpp"

#include <cstdint>
#include <map>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct ProcessUse {
  int processes = 0;               // that live
  double cpu_seconds = 0;          // with those children that have ended
  std::uint64_t memory_bytes = 0;  // resident; what processes share is in it several times
};

// Returns the use of each root that lives, by pid: that of the processes of its session, and of its
// descendants.
std::map<pid_t, ProcessUse> use_by_root(const std::vector<pid_t>& roots,
                                        const std::vector<ProcessInfo>& processes);

}  // namespace hvdrun
