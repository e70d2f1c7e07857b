// Looks at the status pages of an agent's ranks now and then, and sends the launcher what it sees:
// waits in collectives that are too long, and the training's progress. While no rank reports
// progress, it looks at what their processes and GPUs do.
//
// The agent owns it, on its loop thread, and starts it after its ranks. It cannot fail.
#pragma once

#include "agent/host_watch.hpp"
#include "agent/progress_watch.hpp"
#include "agent/rank_processes.hpp"
#include "agent/stall_watch.hpp"
#include "agent/status_pages.hpp"
#include "agent/use_watch.hpp"
#include "base/event_loop.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace hvdrun {

class PageWatch {
 public:
  // The first five must outlive it. `job` says what the launcher wants to know.
  PageWatch(const EventLoop& loop, const StatusPages& pages, const RankProcesses& ranks,
            const GpuRecorder& gpus, Link& link, const LaunchMessage& job);

  void start();
  // Reads no pages until start(): ranks are paused, or being stopped.
  void stop();

 private:
  void look_for_stalls();
  void look_for_progress();
  void look_at_use(std::uint64_t now_ns);
  std::chrono::milliseconds interval(std::uint64_t now_ns) const;

  const StatusPages& pages_;
  const RankProcesses& ranks_;
  const GpuRecorder& gpus_;
  Link& link_;
  std::optional<StallWatch> stalls_;
  const std::chrono::milliseconds progress_interval_;  // 0: the launcher does not want it
  ProgressWatch progress_;
  UseWatch use_;
  std::string sent_;                 // the last message about progress
  std::uint64_t idle_since_ns_ = 0;  // when a rank was last seen to report something
  Timer stall_timer_;
  Timer progress_timer_;
};

}  // namespace hvdrun
