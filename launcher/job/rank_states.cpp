#include "job/rank_states.hpp"

#include "report/report_text.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

std::string what_it_does(const RankState& state, const std::vector<RankReport>& reports) {
  const auto& rank = reports[static_cast<std::size_t>(state.rank)];
  if (rank.exited) return describe_end(rank);
  std::string text(state_words(state.state));
  if (!state.collective.empty())
    text += fmt::format(", in {} for {:.1f} s", state.collective, state.collective_seconds);
  else if (!state.background.empty())
    text += fmt::format(", waits for {} for {:.1f} s", state.background, state.background_seconds);
  return text;
}

std::vector<std::string> table_of(const StateAnswers::Answer& ranks,
                                  const std::vector<RankReport>& reports) {
  if (!ranks) return {};
  std::vector<std::string> lines{fmt::format("{:>6} {:<16} {:>8} {:>6} {:>9}  {}", "rank", "host",
                                             "pid", "epoch", "step", "state")};
  for (const auto& state : *ranks) {
    const bool is_silent = state.epoch == 0 && state.step == 0;  // it has reported no progress
    lines.push_back(fmt::format("{:>6} {:<16} {:>8} {:>6} {:>9}  {}", state.rank,
                                reports[static_cast<std::size_t>(state.rank)].host, state.pid,
                                is_silent ? "-" : std::to_string(state.epoch),
                                is_silent ? "-" : std::to_string(state.step),
                                what_it_does(state, reports)));
  }
  return lines;
}

}  // namespace

std::string_view state_words(const std::string& state) {
  if (state == "R") return "running";
  if (state == "S" || state == "I") return "sleeping";
  if (state == "D") return "waiting for a device";
  if (state == "T" || state == "t") return "stopped";
  return "ended";
}

std::vector<std::string> StateTable::add(std::size_t host, const StatesMessage& states,
                                         const std::vector<RankReport>& reports) {
  return table_of(answers_.add(host, states, reports.size()), reports);
}

std::vector<std::string> StateTable::lose(std::size_t host,
                                          const std::vector<RankReport>& reports) {
  return table_of(answers_.lose(host), reports);
}

void StateAnswers::expect(std::set<std::size_t> hosts) {
  missing_ = std::move(hosts);
  ranks_.clear();
}

StateAnswers::Answer StateAnswers::add(std::size_t host, const StatesMessage& states,
                                       std::size_t size) {
  for (const auto& state : states.ranks)
    if (state.rank >= 0 && static_cast<std::size_t>(state.rank) < size) ranks_.push_back(state);
  return lose(host);
}

StateAnswers::Answer StateAnswers::lose(std::size_t host) {
  if (missing_.erase(host) == 0 || !missing_.empty()) return {};
  std::sort(ranks_.begin(), ranks_.end(),
            [](const RankState& a, const RankState& b) { return a.rank < b.rank; });
  return std::exchange(ranks_, {});
}

}  // namespace hvdrun
