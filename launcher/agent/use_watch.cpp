#include "agent/use_watch.hpp"

#include <algorithm>

namespace hvdrun {
namespace {

// Short jobs need no look.
constexpr std::uint64_t kFirstNs = 3'000'000'000;
constexpr std::uint64_t kIntervalNs = 5'000'000'000;

}  // namespace

void UseWatch::begin(std::uint64_t now_ns) {
  looked_ns_ = now_ns;
}

bool UseWatch::is_due(std::uint64_t now_ns) const {
  return now_ns >= looked_ns_ + (use_ ? kIntervalNs : kFirstNs);
}

void UseWatch::look(const std::map<pid_t, ProcessUse>& ranks, const std::vector<GpuUse>& gpus,
                    std::uint64_t now_ns) {
  if (now_ns <= looked_ns_) return;
  UseNow use;
  double cpu_seconds = 0;
  for (const auto& [pid, rank] : ranks) {
    auto& before = cpu_seconds_[pid];
    // It decreases when another process reaps a child that was counted.
    cpu_seconds += std::max(rank.cpu_seconds - before, 0.0);
    before = rank.cpu_seconds;
  }
  use.cores = cpu_seconds * 1e9 / static_cast<double>(now_ns - looked_ns_);
  for (const auto& gpu : gpus) {
    if (!gpu.now.busy_percent) continue;
    ++use.gpus;
    use.gpus_busy += *gpu.now.busy_percent / 100;
  }
  use_ = use;
  looked_ns_ = now_ns;
}

}  // namespace hvdrun
