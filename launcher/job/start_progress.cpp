#include "job/start_progress.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kDelay{1000};
constexpr std::chrono::milliseconds kInterval{200};

}  // namespace

std::string start_progress_text(const Agents& agents, const RankTable& table) {
  std::size_t hosts = 0;
  std::size_t reached = 0;
  std::size_t up = 0;
  for (const auto& agent : agents.every()) {
    if (agent.dismissed) continue;
    ++hosts;
    if (agent.reached) ++reached;
    if (agent.greeted) ++up;
  }
  const auto& ranks = table.ranks();
  const auto started =
      std::count_if(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.pid != 0; });
  return fmt::format("hvdrun: starting: {} of {} reached, {} up, {} started", reached,
                     plural(hosts, "host"), plural(up, "agent"),
                     ranks.empty()
                         ? plural(started, "rank")
                         : fmt::format("{} of {}", started, plural(ranks.size(), "rank")));
}

StartProgress::StartProgress(const EventLoop& loop, const Agents& agents, const RankTable& table,
                             Output& output)
    : agents_(agents), table_(table), output_(output), timer_(loop, [this] { show(); }) {}

void StartProgress::begin() {
  timer_.start(kDelay);
}

void StartProgress::show() {
  output_.status(start_progress_text(agents_, table_));
  timer_.start(kInterval);
}

void StartProgress::end() {
  if (!timer_.pending()) return;
  timer_.cancel();
  output_.status({});
}

}  // namespace hvdrun
