#include "job/stalls.hpp"

#include "base/host_list.hpp"
#include "base/severity.hpp"
#include "common/text.hpp"
#include "model/rank_set.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// At most this many missing ranks are named one by one.
constexpr std::size_t kMostNamed = 4;
// At most this many lines if each rank waits for something else.
constexpr std::size_t kMostLines = 4;
// Seconds. A shorter wait is normal.
constexpr double kLeastWait = 1;

// Returns "allreduce \"grad.3\"" for the status page's "allreduce grad.3".
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
  // Those that show it. A rank shows only the collective that has waited longest.
  std::vector<int> waiting;
  std::vector<int> missing;
};

bool is_in(const RankState& state, const std::string& collective) {
  return state.collective == collective || state.background == collective;
}

// Returns the ranks that may be missing, if a rank that waits for the collective in the background
// knows them. The others do not take part, or have come.
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
    if (is_in(state, collective)) {
      stall.waiting.push_back(state.rank);
    } else if (!known || known->contains(state.rank)) {
      stall.missing.push_back(state.rank);
    }
  }
  return stall;
}

// Returns "rank 2 on n3 (pid 123, in broadcast "w")".
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

// Returns "; nothing is known of rank 2 on n2: its agent does not answer".
std::string describe_silent(const std::vector<int>& silent,
                            const std::vector<RankReport>& reports) {
  if (silent.empty()) return {};
  std::set<std::string> hosts;
  for (const int rank : silent) hosts.insert(reports[static_cast<std::size_t>(rank)].host);
  return fmt::format("; nothing is known of {} on {}: {} not answer", describe_ranks(silent),
                     fold_hosts({hosts.begin(), hosts.end()}),
                     hosts.size() == 1 ? "its agent does" : "their agents do");
}

// If no rank is missing, the collective is slow, or hangs in a library such as NCCL.
std::string describe_stall(const std::string& collective, const Stall& stall,
                           const std::vector<RankState>& states, const std::vector<int>& silent,
                           const std::vector<RankReport>& reports) {
  const std::string ranks = describe_ranks(stall.waiting);
  const bool one = stall.waiting.size() == 1;
  if (stall.missing.empty())
    return fmt::format("{} has lasted {}, and no {}rank is missing: {} {} in it{}",
                       title_of(collective), seconds_text(stall.seconds),
                       silent.empty() ? "" : "other ", ranks, one ? "is" : "are",
                       describe_silent(silent, reports));
  return fmt::format("{} has waited {} for {}; {} {}{}", title_of(collective),
                     seconds_text(stall.seconds), describe_missing(stall, states, reports), ranks,
                     one ? "waits" : "wait", describe_silent(silent, reports));
}

}  // namespace

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

void note_activities(const std::vector<RankState>& states, std::vector<RankReport>& reports) {
  for (const auto& state : states)
    if (state.activity.pid != 0)
      reports[static_cast<std::size_t>(state.rank)].at_stop = state.activity;
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
    const auto stall = reported_.find(collective);
    if (stall == reported_.end()) continue;
    const std::chrono::duration<double> time = now - stall->second;
    if (completed)
      lines.push_back(
          fmt::format("{} continues after {}", title_of(collective), seconds_text(time.count())));
    reported_.erase(stall);
  }
  for (const auto& wait : stalls.begun)
    if (reported_.find(wait.collective) == reported_.end()) unexplained_.insert(wait.collective);
  return lines;
}

std::vector<std::string> StallReporter::explain(const std::vector<RankState>& states,
                                                const std::vector<int>& silent,
                                                const std::vector<RankReport>& reports,
                                                Clock::time_point now) {
  std::vector<std::string> lines;
  std::size_t more = 0;
  for (const std::string& collective : unexplained_) {
    const Stall stall = find_stall(states, collective);
    if (stall.waiting.empty()) continue;
    if (lines.size() == kMostLines) {
      ++more;
      continue;
    }
    lines.push_back(warning_text(describe_stall(collective, stall, states, silent, reports)));
    const std::chrono::duration<double> waited(stall.seconds);
    reported_.emplace(collective, now - std::chrono::duration_cast<Clock::duration>(waited));
  }
  unexplained_.clear();
  if (more > 0) lines.push_back(fmt::format("and {} other collectives wait, too", more));
  return lines;
}

}  // namespace hvdrun
