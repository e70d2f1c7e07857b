// Which ranks of this agent wait for other ranks for too long: tells each wait once when it has
// become too long, and once when it is over, completed or failed.
//
// Owned by the agent, on its loop's thread, and asked by its timer. Whether a wait is a stall, the
// launcher decides, which knows of the ranks on other hosts.
#pragma once

#include "agent/status_pages.hpp"
#include "control/messages.hpp"

#include <chrono>
#include <map>
#include <utility>

namespace hvdrun {

class StallWatch {
 public:
  // `limit`: how long is too long; more than 0.
  explicit StallWatch(std::chrono::milliseconds limit) : limit_(limit) {}

  // How often to look, so that a wait is told soon after it has become too long.
  std::chrono::milliseconds interval() const;

  // Looks at one rank; nothing is in progress in one that has ended.
  void look(int rank, const RankStatus& status);

  // What has changed since this was last asked.
  StallsMessage take();

 private:
  void look(int rank, bool background, const CollectiveStatus& now);

  std::chrono::milliseconds limit_;
  std::map<std::pair<int, bool>, CollectiveStatus> told_;  // by rank, and whether in the background
  StallsMessage changes_;
};

}  // namespace hvdrun
