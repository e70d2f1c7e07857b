#include "agent/stall_watch.hpp"

#include <algorithm>
#include <utility>

namespace hvdrun {

using std::chrono::milliseconds;

milliseconds StallWatch::interval() const {
  return std::clamp(limit_ / 10, milliseconds(10), milliseconds(1000));
}

void StallWatch::look(int rank, const RankStatus& status) {
  look(rank, false, status.blocking);
  look(rank, true, status.background);
}

void StallWatch::look(int rank, bool background, const CollectiveStatus& now) {
  const auto told = told_.find({rank, background});
  if (told != told_.end() && told->second.start_ns != now.start_ns) {
    const bool completed = now.completed > told->second.completed;
    changes_.over.push_back({rank, std::move(told->second.name), completed});
    told_.erase(told);
  } else if (told != told_.end()) {
    return;
  }
  // The start has a time limit of its own, and its error names who is missing.
  if (now.name == "hvd_init") return;
  if (now.name.empty() || now.seconds < std::chrono::duration<double>(limit_).count()) return;
  changes_.begun.push_back({rank, now.name, false});
  told_[{rank, background}] = now;
}

StallsMessage StallWatch::take() {
  return std::exchange(changes_, {});
}

}  // namespace hvdrun
