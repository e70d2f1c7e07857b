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

}  // namespace hvdrun
