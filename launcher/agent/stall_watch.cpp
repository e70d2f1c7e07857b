#include "agent/stall_watch.hpp"

#include <algorithm>

namespace hvdrun {

std::chrono::milliseconds StallWatch::interval() const {
  using std::chrono::milliseconds;
  const milliseconds longest(reported_.empty() ? 10'000 : 1000);
  return std::clamp(limit_ / 8, milliseconds(10), longest);
}

void StallWatch::look(int rank, const RankStatus& status) {
  look(rank, false, status.blocking);
  look(rank, true, status.background);
}

void StallWatch::look(int rank, bool background, const CollectiveStatus& now) {
  const auto reported = reported_.find({rank, background});
  if (reported != reported_.end() && reported->second.start_ns != now.start_ns) {
    const bool completed = now.completed > reported->second.completed;
    changes_.over.push_back({rank, std::move(reported->second.name), completed});
    reported_.erase(reported);
  } else if (reported != reported_.end()) {
    return;
  }
  // hvd_init has a time limit of its own, and its error names the missing ranks.
  if (now.name == "hvd_init") return;
  if (now.name.empty() || now.seconds < std::chrono::duration<double>(limit_).count()) return;
  changes_.begun.push_back({rank, now.name, false});
  reported_[{rank, background}] = now;
}

StallsMessage StallWatch::take() {
  return std::exchange(changes_, {});
}

}  // namespace hvdrun
