// Notices when ranks of this agent wait too long for other ranks. It reports each such wait twice:
// when it has become too long, and when it is over, completed or failed.
//
// The agent owns it, on its loop's thread, and calls it from a timer. The launcher decides whether
// a wait is a stall, because only the launcher knows the ranks on other hosts. It cannot fail.
#pragma once

#include "agent/status_pages.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <map>
#include <utility>

namespace hvdrun {

class StallWatch {
 public:
  // Reports waits that are longer than `limit`, which must be more than 0.
  explicit StallWatch(std::chrono::milliseconds limit) : limit_(limit) {}

  // Returns how long to wait for the next look, so that a wait is reported soon after it has become
  // too long, and its end sooner.
  std::chrono::milliseconds interval() const;

  // Looks at one rank. In a rank that has ended nothing is in progress.
  void look(int rank, const RankStatus& status);

  // Returns what has changed since the last call.
  StallsMessage take();

 private:
  void look(int rank, bool background, const CollectiveStatus& now);

  std::chrono::milliseconds limit_;
  // By rank, and whether in the background.
  std::map<std::pair<int, bool>, CollectiveStatus> reported_;
  StallsMessage changes_;
};

}  // namespace hvdrun
