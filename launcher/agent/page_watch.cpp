#include "agent/page_watch.hpp"

#include "agent/process_tree.hpp"
#include "agent/process_use.hpp"
#include "agent/rank_messages.hpp"
#include "common/clock.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Between two looks at ranks that report nothing.
constexpr std::chrono::milliseconds kLongestInterval{2000};

}  // namespace

PageWatch::PageWatch(const EventLoop& loop, const StatusPages& pages, const RankProcesses& ranks,
                     const GpuRecorder& gpus, Link& link, const LaunchMessage& job)
    : pages_(pages),
      ranks_(ranks),
      gpus_(gpus),
      link_(link),
      progress_interval_(job.progress_interval),
      stall_timer_(loop, [this] { look_for_stalls(); }),
      progress_timer_(loop, [this] { look_for_progress(); }) {
  if (job.stall_time.count() > 0) stalls_.emplace(job.stall_time);
}

void PageWatch::start() {
  if (stalls_) look_for_stalls();
  use_.begin(common::monotonic_ns());
  idle_since_ns_ = common::monotonic_ns();
  if (progress_interval_.count() > 0) progress_timer_.start(progress_interval_);
}

void PageWatch::stop() {
  stall_timer_.cancel();
  progress_timer_.cancel();
}

void PageWatch::look_for_stalls() {
  stall_timer_.start(stalls_->interval());
  for (const RankProcess& process : ranks_.all())
    stalls_->look(process.rank, status_of(pages_, process));
  const StallsMessage changes = stalls_->take();
  if (!changes.begun.empty() || !changes.over.empty())
    link_.send(FrameType::stalls, kToLauncher, pack(changes));
}

// The longer no rank reports anything, the less often it looks.
std::chrono::milliseconds PageWatch::interval(std::uint64_t now_ns) const {
  const std::chrono::nanoseconds idle(now_ns - std::min(now_ns, idle_since_ns_));
  const auto longest = std::max(progress_interval_, kLongestInterval);
  return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(idle / 8),
                    progress_interval_, longest);
}

void PageWatch::look_for_progress() {
  std::vector<RankProgress> ranks;
  for (const RankProcess& process : ranks_.all()) {
    if (!process.alive) continue;
    ranks.push_back(pages_.progress(process.index));
    ranks.back().rank = process.rank;
  }
  const auto now_ns = common::monotonic_ns();
  HostProgress progress = progress_.look(ranks, now_ns);
  if (progress.reporting > 0 || progress.in_init > 0) idle_since_ns_ = now_ns;
  progress_timer_.start(interval(now_ns));
  if (progress.reporting == 0) {
    if (use_.is_due(now_ns)) look_at_use(now_ns);
    progress.use = use_.use();
  }
  std::string message = pack(ProgressMessage{std::move(progress)});
  if (message == sent_) return;
  link_.send(FrameType::progress, kToLauncher, message);
  sent_ = std::move(message);
}

void PageWatch::look_at_use(std::uint64_t now_ns) {
  std::vector<pid_t> pids;
  for (const RankProcess& process : ranks_.all())
    if (process.alive) pids.push_back(process.pid);
  use_.look(use_by_root(pids, processes_below(::getpid())), gpus_.record().gpus, now_ns);
}

}  // namespace hvdrun
