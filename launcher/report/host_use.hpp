// What each host has used for the job, summed over its ranks and GPUs. Pure functions and plain
// values.
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
  bool is_known =
      false;           // the end of at least one rank was reported; otherwise the next three are 0
  double seconds = 0;  // of the longest rank
  double cpu_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;                 // of the largest rank
  std::optional<std::uint64_t> rank_gpu_memory_bytes;  // peak of the rank with most on one GPU
  int joined = 0;                                      // ranks whose counters libhvd has reported
  double collective_seconds = 0;                       // mean of these ranks
  double waiting_seconds = 0;                          // mean of these ranks
  std::vector<GpuUse> gpus;
  std::optional<HostHardware> hardware;

  double cores() const { return seconds > 0 ? cpu_seconds / seconds : 0; }
  // Of its GPUs; nullopt: not known of any.
  std::optional<double> gpu_busy_percent() const;              // on average
  std::optional<std::uint64_t> gpu_peak_memory_bytes() const;  // of the fullest
  std::optional<int> gpu_peak_celsius() const;                 // of the hottest
  std::optional<double> gpu_mean_watts() const;                // of each, on average
  Throttling gpu_throttling() const;  // of all together; without samples: not known of any
};

// Returns the hosts in the order of their first ranks.
std::vector<HostUse> use_of_hosts(const Report& report);

}  // namespace hvdrun
