#include "job/start_progress.hpp"

#include "base/counted.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kQuiet{1000};
constexpr std::chrono::milliseconds kAgain{200};

}  // namespace

std::string start_progress_text(const Agents& agents, const RankBook& book) {
  std::size_t hosts = 0;
  std::size_t reached = 0;
  std::size_t up = 0;
  for (const auto& agent : agents.every()) {
    if (agent.dismissed) continue;
    ++hosts;
    if (agent.reached) ++reached;
    if (agent.greeted) ++up;
  }
  const auto& ranks = book.ranks();
  const auto started =
      std::count_if(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.pid != 0; });
  return fmt::format("hvdrun: starting: {} of {} reached, {} up, {} started", reached,
                     counted(hosts, "host"), counted(up, "agent"),
                     ranks.empty()
                         ? counted(started, "rank")
                         : fmt::format("{} of {}", started, counted(ranks.size(), "rank")));
}

StartProgress::StartProgress(const EventLoop& loop, const Agents& agents, const RankBook& book,
                             Output& output)
    : agents_(agents), book_(book), output_(output), timer_(loop, [this] { show(); }) {}

void StartProgress::begin() {
  timer_.start(kQuiet);
}

void StartProgress::show() {
  output_.status(start_progress_text(agents_, book_));
  timer_.start(kAgain);
}

void StartProgress::end() {
  if (!timer_.pending()) return;
  timer_.cancel();
  output_.status({});
}

}  // namespace hvdrun
