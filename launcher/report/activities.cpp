#include "report/activities.hpp"

#include "common/text.hpp"
#include "model/traceback.hpp"
#include "report/failures.hpp"
#include "report/quantities.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Seconds. A shorter job did not hang: its user mistyped the command.
constexpr double kLeastHang = 2;
// More ranks than this are folded.
constexpr std::size_t kMostRankLines = 8;

// Returns ", in the system call futex"; empty if it is unknown.
std::string where(const std::string& system_call) {
  if (system_call.empty()) return {};
  if (system_call == "computing") return ", computing";
  const bool is_number = system_call.rfind("system call", 0) == 0;
  return fmt::format(", in {}{}", is_number ? "" : "the system call ", system_call);
}

std::string line_of(const RankReport& rank) {
  const RankActivity& activity = *rank.at_stop;
  return fmt::format("rank {} on {} had run {} (CPU {}){}: {}, pid {}", rank.placement.rank,
                     rank.host, format_duration(activity.seconds),
                     format_duration(activity.cpu_seconds), where(activity.system_call),
                     activity.program, activity.pid);
}

// Returns "ranks 0-6,8-15 had run 8.10 s (CPU at most 0.30 s), in the system call futex".
std::vector<std::string> folded(const std::vector<const RankReport*>& ranks) {
  struct Group {
    std::vector<int> ranks;
    double seconds = 0;
    double cpu_seconds = 0;
  };
  std::map<std::string, Group> groups;
  for (const RankReport* rank : ranks) {
    Group& group = groups[rank->at_stop->system_call];
    group.ranks.push_back(rank->placement.rank);
    group.seconds = std::max(group.seconds, rank->at_stop->seconds);
    group.cpu_seconds = std::max(group.cpu_seconds, rank->at_stop->cpu_seconds);
  }
  std::vector<std::string> lines;
  for (const auto& [system_call, group] : groups)
    lines.push_back(fmt::format("{} had run {} (CPU {}{}){}", describe_ranks(group.ranks),
                                format_duration(group.seconds),
                                group.ranks.size() > 1 ? "at most " : "",
                                format_duration(group.cpu_seconds), where(system_call)));
  return lines;
}

// Says where the stacks come from while a job runs. The ranks of this job have ended.
constexpr std::string_view kAdvice =
    "if it hung: next time, before Ctrl-C, type hvdrun why in another terminal, or Ctrl-\\ here";

// Returns a line for each rank that has printed an exception and has not ended, at most a few.
std::vector<std::string> exception_lines(const std::vector<const RankReport*>& ranks) {
  std::vector<std::string> lines;
  for (const RankReport* rank : ranks) {
    if (lines.size() == kMostRankLines) break;
    const auto exception = exception_at_end(rank->last_stderr);
    // hvdrun's own SIGINT raises KeyboardInterrupt.
    if (exception.empty() || exception.starts_with("KeyboardInterrupt")) continue;
    lines.push_back(fmt::format(
        "rank {} had printed an exception, and may have waited in its exit for others: {}",
        rank->placement.rank, clipped(exception)));
  }
  if (!lines.empty()) lines.emplace_back(kMpi4pyAdvice);
  return lines;
}

}  // namespace

std::vector<std::string> activity_lines(const Report& report) {
  std::vector<const RankReport*> ranks;
  for (const RankReport& rank : report.ranks)
    if (rank.at_stop && rank.at_stop->seconds >= kLeastHang) ranks.push_back(&rank);
  if (ranks.empty()) return {};
  std::vector<std::string> lines;
  if (ranks.size() > kMostRankLines)
    lines = folded(ranks);
  else
    for (const RankReport* rank : ranks) lines.push_back(line_of(*rank));
  for (auto& line : exception_lines(ranks)) lines.push_back(std::move(line));
  if (!report.hang) lines.emplace_back(kAdvice);
  return lines;
}

}  // namespace hvdrun
