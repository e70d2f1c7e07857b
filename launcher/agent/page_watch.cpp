#include "agent/page_watch.hpp"

#include "agent/rank_messages.hpp"
#include "common/clock.hpp"

#include <vector>

namespace hvdrun {

PageWatch::PageWatch(const EventLoop& loop, const StatusPages& pages, const RankProcesses& ranks,
                     Link& link, const LaunchMessage& job)
    : pages_(pages),
      ranks_(ranks),
      link_(link),
      progress_interval_(job.progress_interval),
      stall_timer_(loop, [this] { look_for_stalls(); }),
      progress_timer_(loop, [this] { look_for_progress(); }) {
  if (job.stall_time.count() > 0) stalls_.emplace(job.stall_time);
}

void PageWatch::start() {
  if (stalls_) look_for_stalls();
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

void PageWatch::look_for_progress() {
  progress_timer_.start(progress_interval_);
  std::vector<RankProgress> ranks;
  for (const RankProcess& process : ranks_.all()) {
    if (!process.alive) continue;
    ranks.push_back(pages_.progress(process.index));
    ranks.back().rank = process.rank;
  }
  std::string message = pack(ProgressMessage{progress_.look(ranks, common::monotonic_ns())});
  if (message == sent_) return;
  link_.send(FrameType::progress, kToLauncher, message);
  sent_ = std::move(message);
}

}  // namespace hvdrun
