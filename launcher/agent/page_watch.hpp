// Looks at the status pages of an agent's ranks now and then, and sends the launcher what it sees:
// waits in collectives that are too long, and the training's progress.
//
// The agent owns it, on its loop thread, and starts it after its ranks. It cannot fail.
#pragma once

#include "agent/progress_watch.hpp"
#include "agent/rank_processes.hpp"
#include "agent/stall_watch.hpp"
#include "agent/status_pages.hpp"
#include "base/event_loop.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace hvdrun {

class PageWatch {
 public:
  // The first four must outlive it. `job` says what the launcher wants to know.
  PageWatch(const EventLoop& loop, const StatusPages& pages, const RankProcesses& ranks, Link& link,
            const LaunchMessage& job);

  void start();
  // Reads no pages until start(): ranks are paused, or being stopped.
  void stop();

 private:
  void look_for_stalls();
  void look_for_progress();

  const StatusPages& pages_;
  const RankProcesses& ranks_;
  Link& link_;
  std::optional<StallWatch> stalls_;
  const std::chrono::milliseconds progress_interval_;  // 0: the launcher does not want it
  ProgressWatch progress_;
  std::string sent_;  // the last message about progress
  Timer stall_timer_;
  Timer progress_timer_;
};

}  // namespace hvdrun
