#include "job/rank_states.hpp"

#include "report/report_text.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace hvdrun {
namespace {

std::string what_it_does(const RankState& state, const RankReport& rank) {
  if (rank.exited) return describe_end(rank);
  std::string text(state_words(state.state));
  if (!state.collective.empty())
    text += fmt::format(", in {} for {:.1f} s", state.collective, state.collective_seconds);
  else if (!state.background.empty())
    text += fmt::format(", waits for {} for {:.1f} s", state.background, state.background_seconds);
  return text;
}

std::string line_of(const RankReport& rank, int pid, const std::string& epoch,
                    const std::string& step, std::string_view text) {
  return fmt::format("{:>6} {:<16} {:>8} {:>6} {:>9}  {}", rank.placement.rank, rank.host, pid,
                     epoch, step, text);
}

}  // namespace

std::string_view state_words(const std::string& state) {
  if (state == "R") return "running";
  if (state == "S" || state == "I") return "sleeping";
  if (state == "D") return "waiting for a device";
  if (state == "T" || state == "t") return "stopped";
  return "ended";
}

std::vector<RankState> states_in(const Answers& answers, const RankTable& table) {
  std::vector<RankState> states;
  for (const auto& [host, answer] : answers.by_host)
    std::ranges::copy_if(answer.ranks, std::back_inserter(states),
                         [&table](const RankState& state) { return table.has(state.rank); });
  std::ranges::sort(states, {}, &RankState::rank);
  return states;
}

std::vector<int> silent_ranks(const Answers& answers, const RankTable& table) {
  const auto silent = answers.silent();
  auto ranks = table.running();
  std::erase_if(ranks, [&](int rank) { return !silent.contains(table.host_index(rank)); });
  return ranks;
}

std::vector<std::string> state_table(const Answers& answers, const RankTable& table) {
  std::vector<std::string> lines{fmt::format("{:>6} {:<16} {:>8} {:>6} {:>9}  {}", "rank", "host",
                                             "pid", "epoch", "step", "state")};
  const auto states = states_in(answers, table);
  const auto silent = silent_ranks(answers, table);
  auto state = states.begin();
  for (const auto& rank : table.ranks()) {
    const int number = rank.placement.rank;
    while (state != states.end() && state->rank < number) ++state;
    if (state != states.end() && state->rank == number) {
      const bool has_progress = state->epoch != 0 || state->step != 0;
      lines.push_back(line_of(rank, state->pid, has_progress ? std::to_string(state->epoch) : "-",
                              has_progress ? std::to_string(state->step) : "-",
                              what_it_does(*state, rank)));
    } else if (std::ranges::binary_search(silent, number)) {
      lines.push_back(line_of(rank, rank.pid, "-", "-", "not known: its agent does not answer"));
    }
  }
  return lines;
}

}  // namespace hvdrun
