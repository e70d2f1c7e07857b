#include "job/stalls.hpp"

#include "common/text.hpp"
#include "common/variables.h"
#include "model/rank_set.hpp"
#include "slurm/host_list.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kUnlessSet{60'000};
constexpr double kLongestS = 1e9;

std::string_view value_of(const std::vector<std::string>& variables, std::string_view name) {
  for (const std::string& variable : variables) {
    const std::string_view text = variable;
    if (text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=')
      return text.substr(name.size() + 1);
  }
  return {};
}

std::optional<double> number_in(const std::vector<std::string>& variables, std::string_view ours) {
  std::string_view text = value_of(variables, ours);
  if (text.empty())
    text =
        value_of(variables, "HOROVOD_" + std::string(ours.substr(std::string_view("HVD_").size())));
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, std::chars_format::fixed);
  if (error != std::errc{} || end != last || !(value >= 0 && value <= kLongestS)) return {};
  return value;
}

// So many missing ranks are named one by one.
constexpr std::size_t kMostNamed = 4;
// A program in which each rank waits for something else says it in so many lines.
constexpr std::size_t kMostLines = 4;
// A collective that has lasted no longer is one of a job that goes well.
constexpr double kLeastWait = 1;

// "allreduce \"grad.3\"" of the page's "allreduce grad.3".
std::string title_of(const std::string& collective) {
  const auto space = collective.find(' ');
  if (space == std::string::npos) return collective;
  return collective.substr(0, space) + " " + quote(collective.substr(space + 1));
}

std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

struct Stall {
  double seconds = 0;  // the longest wait
  std::vector<int> waiting;
  std::vector<int> missing;
};

bool is_in(const RankState& state, const std::string& collective) {
  return state.collective == collective || state.background == collective;
}

// Whom a rank that waits for it in the background knows to be missing; nothing when it does not.
std::optional<RankSet> known_missing(const std::vector<RankState>& states,
                                     const std::string& collective) {
  const RankState* longest = nullptr;
  for (const RankState& state : states)
    if (state.background == collective && !state.background_missing.empty() &&
        (longest == nullptr || state.background_seconds > longest->background_seconds))
      longest = &state;
  if (longest == nullptr) return {};
  const auto missing = RankSet::parse(longest->background_missing);
  return missing ? std::optional(*missing) : std::nullopt;
}

Stall find_stall(const std::vector<RankState>& states, const std::string& collective) {
  Stall stall;
  const auto known = known_missing(states, collective);
  for (const RankState& state : states) {
    if (state.collective == collective)
      stall.seconds = std::max(stall.seconds, state.collective_seconds);
    if (state.background == collective)
      stall.seconds = std::max(stall.seconds, state.background_seconds);
    const bool missing = known ? known->contains(state.rank) : !is_in(state, collective);
    (missing ? stall.missing : stall.waiting).push_back(state.rank);
  }
  return stall;
}

// "rank 2 on n3 (pid 123, in broadcast "w")"
std::string describe_missing(const RankState& state, const RankReport& report) {
  std::string text = fmt::format("rank {} on {} (pid {}", state.rank, report.host, state.pid);
  if (state.state == "ended") {
    text += ", which has ended";
  } else if (!state.collective.empty()) {
    text += ", in " + title_of(state.collective);
  }
  return text + ")";
}

std::string describe_missing(const Stall& stall, const std::vector<RankState>& states,
                             const std::vector<RankReport>& reports) {
  if (stall.missing.size() > kMostNamed) {
    std::vector<std::string> hosts;
    for (const int rank : stall.missing)
      hosts.push_back(reports[static_cast<std::size_t>(rank)].host);
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    return describe_ranks(stall.missing) + " on " + fold_hosts(hosts);
  }
  std::string text;
  for (const RankState& state : states) {
    if (std::find(stall.missing.begin(), stall.missing.end(), state.rank) == stall.missing.end())
      continue;
    text += (text.empty() ? "" : ", ") +
            describe_missing(state, reports[static_cast<std::size_t>(state.rank)]);
  }
  return text;
}

}  // namespace

milliseconds stall_time(const std::vector<std::string>& variables) {
  if (number_in(variables, HVD_ENV_STALL_CHECK_DISABLE) == 1) return milliseconds(0);
  const auto seconds = number_in(variables, HVD_ENV_STALL_CHECK_TIME);
  return seconds ? milliseconds(std::llround(std::ceil(*seconds * 1000))) : kUnlessSet;
}

std::vector<CollectiveWait> find_waits(const std::vector<RankState>& states,
                                       const std::vector<RankReport>& reports) {
  std::set<std::string> collectives;
  for (const RankState& state : states)
    for (const auto& [name, seconds] : {std::pair(&state.collective, state.collective_seconds),
                                        std::pair(&state.background, state.background_seconds)})
      if (!name->empty() && seconds >= kLeastWait) collectives.insert(*name);
  std::vector<CollectiveWait> waits;
  for (const std::string& collective : collectives) {
    Stall stall = find_stall(states, collective);
    if (stall.waiting.empty() || stall.missing.empty()) continue;
    auto text = fmt::format("{} had waited {} in {} for {}", describe_ranks(stall.waiting),
                            seconds_text(stall.seconds), title_of(collective),
                            describe_missing(stall, states, reports));
    waits.push_back({collective, stall.seconds, std::move(stall.waiting), std::move(stall.missing),
                     std::move(text)});
  }
  std::stable_sort(waits.begin(), waits.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return waits;
}

void count_unfinished_collectives(std::vector<RankState>& states,
                                  std::vector<RankReport>& reports) {
  std::sort(states.begin(), states.end(),
            [](const RankState& a, const RankState& b) { return a.rank < b.rank; });
  for (const RankState& state : states) {
    RankReport& report = reports[static_cast<std::size_t>(state.rank)];
    if (state.collective.empty() || report.in_collective != state.collective) continue;
    auto& counters = report.counters;
    const auto add = [&](double& to) {
      to = std::min(to + state.collective_seconds, report.seconds);
    };
    add(counters.collective_seconds);
    if (!find_stall(states, state.collective).missing.empty()) add(counters.waiting_seconds);
  }
}

std::vector<std::string> StallReporter::take(const StallsMessage& stalls, Clock::time_point now) {
  std::vector<std::string> lines;
  for (const auto& [rank, collective, completed] : stalls.over) {
    unexplained_.erase(collective);
    const auto told = told_.find(collective);
    if (told == told_.end()) continue;
    const std::chrono::duration<double> time = now - told->second;
    if (completed)
      lines.push_back(
          fmt::format("{} goes on after {}", title_of(collective), seconds_text(time.count())));
    told_.erase(told);
  }
  for (const auto& wait : stalls.begun)
    if (told_.find(wait.collective) == told_.end()) unexplained_.insert(wait.collective);
  return lines;
}

std::vector<std::string> StallReporter::explain(const std::vector<RankState>& states,
                                                const std::vector<RankReport>& reports,
                                                Clock::time_point now) {
  std::vector<std::string> lines;
  std::size_t more = 0;
  for (const std::string& collective : unexplained_) {
    const Stall stall = find_stall(states, collective);
    // None waits any more, or nobody is missing: then it is only slow.
    if (stall.waiting.empty() || stall.missing.empty()) continue;
    if (lines.size() == kMostLines) {
      ++more;
      continue;
    }
    lines.push_back(
        fmt::format("{} has waited {} for {}; {} {}", title_of(collective),
                    seconds_text(stall.seconds), describe_missing(stall, states, reports),
                    describe_ranks(stall.waiting), stall.waiting.size() == 1 ? "waits" : "wait"));
    const std::chrono::duration<double> waited(stall.seconds);
    told_.emplace(collective, now - std::chrono::duration_cast<Clock::duration>(waited));
  }
  unexplained_.clear();
  if (more > 0) lines.push_back(fmt::format("and {} other collectives wait, too", more));
  return lines;
}

}  // namespace hvdrun
