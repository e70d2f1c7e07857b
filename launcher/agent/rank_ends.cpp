#include "agent/rank_ends.hpp"

#include <chrono>
#include <utility>

namespace hvdrun {
namespace {

// How long to wait for libpmix's thread before a rank's end is reported without its answer.
constexpr std::chrono::milliseconds kSettleTimeout{60000};

}  // namespace

RankEnds::RankEnds(const EventLoop& loop, Link& link, std::function<void()> on_late_report)
    : link_(link), on_late_report_(std::move(on_late_report)), timer_(loop, [this] {
        while (!unsettled_.empty()) report_settled(unsettled_.begin()->first);
      }) {}

void RankEnds::report(ExitedMessage message, PmixServer* pmix) {
  const int rank = message.rank;
  message.lost_connection = pmix != nullptr && pmix->left_without_finalize(rank);
  if (pmix != nullptr) pmix->rank_ended(rank);
  if (!message.lost_connection || message.wait_status != 0)
    return link_.send(FrameType::exited, kToLauncher, pack(message));
  // The rank may have called PMIx_Finalize, which does not wait long for a delayed server.
  if (unsettled_.empty()) timer_.start(kSettleTimeout);
  unsettled_.emplace(rank, Unsettled{std::move(message), pmix});
  pmix->settle([this, rank] { report_settled(rank); });
}

void RankEnds::report_settled(int rank) {
  auto settled = unsettled_.extract(rank);
  if (settled.empty()) return;
  auto& [message, pmix] = settled.mapped();
  message.lost_connection = pmix->left_without_finalize(rank);
  link_.send(FrameType::exited, kToLauncher, pack(message));
  if (unsettled_.empty()) timer_.cancel();
  on_late_report_();
}

}  // namespace hvdrun
