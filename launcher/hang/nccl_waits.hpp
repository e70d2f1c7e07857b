// Which ranks of a job have not come to a collective of NCCL, from what NCCL's RAS has counted.
// Pure functions and values, for any thread.
#pragma once

#include "look/nccl_state.hpp"
#include "model/report.hpp"

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// The processes of a host that belong to ranks.
struct HostProcesses {
  std::string address;         // a number; empty: unknown
  std::map<pid_t, int> ranks;  // by pid
};

struct NcclFacts {
  // With CollectiveWait::collective as "AllReduce 1,234 of the NCCL communicator of 8 ranks". The
  // time is unknown. Those for which most ranks wait come first.
  std::vector<CollectiveWait> waits;
  std::vector<int> silent;  // whose RAS does not answer
};

// Leaves out a communicator with a process that has not called what others have and that is of no
// rank of the job, or of which it is unclear of which host it is.
NcclFacts find_nccl_waits(const std::vector<NcclCommunicator>& communicators,
                          const std::vector<HostProcesses>& hosts);

}  // namespace hvdrun
