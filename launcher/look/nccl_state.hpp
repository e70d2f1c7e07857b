// What NCCL's RAS knows of a job: which collectives each rank of each communicator has called.
// Plain values, for any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// One rank of a communicator. Its number there is not that of the job.
struct NcclMember {
  int rank = -1;
  std::string host;  // the number of its address: "10.0.0.2"; empty: unknown
  pid_t pid = -1;    // on that host; -1: unknown
  std::map<std::string, std::uint64_t> calls;  // "AllReduce" -> 1234
  bool silent = false;                         // its RAS does not answer; there are no calls
  bool operator==(const NcclMember&) const = default;
};

struct NcclCommunicator {
  std::string id;
  std::vector<NcclMember> members;
  bool operator==(const NcclCommunicator&) const = default;

  // Returns whether a member has called other collectives than the others, or does not answer.
  bool is_uneven() const;
};

}  // namespace hvdrun
