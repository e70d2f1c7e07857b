// What is counted while a rank trains, and what its host's GPUs do meanwhile: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

struct EpochCounts {
  std::uint64_t epoch = 0;  // its number, as the program counts
  double seconds = 0;
  std::uint64_t samples = 0;  // of this rank
};

struct MetricValue {
  std::string name;
  double value = 0;
};

// What a rank has told through libhvd (hvd_contract/status_page.h).
struct RankCounters {
  bool joined = false;  // the job, through libhvd; else all that follows is 0
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  double collective_seconds = 0;    // in collectives, waiting included
  double waiting_seconds = 0;       // of that, for other ranks
  std::uint64_t epochs_over = 0;    // how many there were
  std::vector<EpochCounts> epochs;  // the latest of them, in order
  std::vector<MetricValue> metrics;
  bool had_to_stop = false;  // before the program's end, and not by its own wish
};

// One GPU of a host, as NVML has shown it every now and then while the ranks ran.
struct GpuUse {
  std::string uuid;
  std::uint64_t looks = 0;              // how often; 0: the job was over before the first
  double busy_percent = 0;              // of the time, on average
  bool busy_is_known = false;           // MIG devices do not tell
  std::uint64_t peak_memory_bytes = 0;  // of all that was on the GPU, by any process
};

}  // namespace hvdrun
