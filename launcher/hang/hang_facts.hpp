// What is known of a job that seems to hang. Plain values, for any thread.
#pragma once

#include "hang/nccl_waits.hpp"
#include "look/process_look.hpp"
#include "model/report.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

// What is known of a rank at one moment.
struct RankFacts {
  int rank = 0;
  std::string host;
  std::string ended;               // how it ended: "exit code 0"; empty: it runs
  std::string collective;          // that it is in, with its name: "allreduce grad.3"
  std::uint64_t calls = 0;         // how many it has completed before
  std::string background;          // the one in the background that has waited longest
  double waited = 0;               // for the longer of the two, in seconds
  std::vector<ProcessLook> looks;  // at its programs; empty: nothing was seen
  std::string problem;             // why looks are missing
};

struct HangFacts {
  std::vector<RankFacts> ranks;
  std::vector<CollectiveWait> waits;  // that libhvd reports, the longest first
  NcclFacts nccl;
  std::vector<std::string> problems;  // of hosts: "n5: no answer"
};

}  // namespace hvdrun
