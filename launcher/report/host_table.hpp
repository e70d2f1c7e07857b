// What each host has given to the job, summed up over its ranks and GPUs: for the report.
#pragma once

#include "model/report.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct HostUse {
  std::string host;
  std::vector<int> ranks;
  bool has_told = false;  // of the end of one of them at least; else what follows is 0
  double seconds = 0;     // of the longest rank
  double cpu_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;  // of the largest rank
  int joined = 0;                       // how many have told what follows, through libhvd
  double collective_seconds = 0;        // of these, the mean
  double waiting_seconds = 0;           // likewise
  std::vector<GpuUse> gpus;

  double cores() const { return seconds > 0 ? cpu_seconds / seconds : 0; }
  std::optional<double> gpu_busy_percent() const;              // the mean of its GPUs
  std::optional<std::uint64_t> gpu_peak_memory_bytes() const;  // of the fullest
};

// In the order of their first ranks.
std::vector<HostUse> use_of_hosts(const Report& report);

// The ranks that the others have waited for: those that have hardly waited themselves.

struct Stragglers {
  std::vector<int> ranks;
  double waiting_seconds = 0;         // of the one of them that has waited longest
  double others_waiting_seconds = 0;  // the median of the others
  double share = 0;                   // of the others' time that this is
};

// None where nobody has waited long: the others' median is at least a second and a tenth of their
// time, and four times what a straggler has waited. At most half of the ranks are stragglers: where
// all wait for each other in turn, nobody is to blame. Only ranks that use libhvd count.
std::optional<Stragglers> find_stragglers(const std::vector<RankReport>& ranks);

// "rank 3 on n2 is slow: others have waited 12.10 s in collectives (31 % of their time), it 0.20 s"
std::string describe_stragglers(const Stragglers& stragglers, const std::vector<RankReport>& ranks);

// What each host has given to the job: for the report at its end.

// A line a host, under a line that says what they show: its ranks, the time of the longest, the CPU
// time of all and how many cores that kept busy, the peak memory of the largest; where ranks use
// libhvd, how much of their time they were in collectives, and waited there for others; where NVML
// has shown GPUs, how busy they were and the memory in use of the fullest. Dashes for what a host
// has not told (it was lost). Of many hosts only the first, and how many there are.
// For a job on one host one line with what libhvd and NVML have told; none without them, when no
// rank has started, or when the job was over within a second.
std::vector<std::string> host_table(const Report& report);

}  // namespace hvdrun
