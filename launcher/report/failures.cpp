#include "report/failures.hpp"

#include "common/text.hpp"
#include "model/rank_set.hpp"
#include "model/traceback.hpp"
#include "report/first_failure.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMostOthers = 8;   // lines
constexpr std::size_t kMostBytes = 300;  // of an exception's line
constexpr std::string_view kGroupHeader = "  + Exception Group Traceback (most recent call last):";
constexpr std::string_view kGroupMargin = "  | ";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// Returns the traceback that a rank has printed last, if it left by its own exit code after that,
// and has reported nothing to libhvd. Otherwise returns no lines.
std::vector<std::string> last_traceback(const RankReport& rank) {
  const bool left = rank.exited && !rank.stopped_by_us && rank.signal == 0 && rank.exit_code != 0;
  if (!left || rank.failure.reported || exception_at_end(rank.last_stderr).empty()) return {};
  auto lines = cause_lines(rank.last_stderr);
  for (auto& line : lines)
    line.erase(0, line.size() - without_rank_prefix(line, rank.placement.rank).size());
  return lines;
}

// Returns whether the rank has failed by the exception of the first failure.
bool raised_the_same(const Report& report, const RankReport& rank) {
  if (!report.first_failure) return false;
  const auto& first = report.ranks[static_cast<std::size_t>(*report.first_failure)];
  if (!rank.failure.text.empty() || !first.failure.text.empty())
    return rank.failure.text == first.failure.text;
  const auto printed = last_traceback(rank);
  return !printed.empty() && rank.exit_code == first.exit_code && printed == last_traceback(first);
}

}  // namespace

std::string clipped(std::string_view line) {
  if (line.size() <= kMostBytes) return std::string(line);
  auto end = kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) --end;
  return std::string(line.substr(0, end)) + " …";
}

std::string exception_line(std::string_view text) {
  const auto lines = lines_of(text);
  if (lines.empty()) return {};
  // Finds the last traceback of a chain. The exception comes after its frames, which are indented.
  const auto header = std::find_if(lines.rbegin(), lines.rend(), [](std::string_view line) {
    return line == kTracebackHeader || line == kGroupHeader;
  });
  if (header == lines.rend()) return clipped(lines.back());
  const auto margin = *header == kGroupHeader ? kGroupMargin : std::string_view();
  for (auto at = header.base(); at != lines.end(); ++at) {
    if (!at->starts_with(margin)) continue;
    const auto line = at->substr(margin.size());
    if (!line.empty() && line.front() != ' ') return clipped(line);
  }
  return clipped(lines.back());
}

std::vector<std::string> failure_lines(const RankReport& rank) {
  std::vector<std::string> quoted;
  for (const auto line : lines_of(rank.failure.text)) quoted.push_back("  | " + std::string(line));
  return quoted;
}

bool shows_cause(const RankReport& rank) {
  if (!rank.stderr_in_sight || rank.last_stderr.empty()) return false;
  if (rank.failure.text.empty()) return true;
  const auto& shown = rank.last_stderr;
  return std::find(shown.begin(), shown.end(), lines_of(rank.failure.text).back()) != shown.end();
}

bool has_failure_to_show(const Report& report, const RankReport& rank) {
  if (rank.failure.text.empty())
    return raised_the_same(report, rank) ||
           (!succeeded(rank) && ended_with_peer_error(rank, rank.last_stderr));
  return !(failed_for_a_peer(rank) && rank.stopped_by_us);
}

std::vector<std::string> other_failures(const Report& report) {
  std::vector<int> same;
  std::vector<int> follow_on;
  std::vector<std::pair<std::string, std::vector<int>>> by_exception;
  for (const auto& rank : report.ranks) {
    const int number = rank.placement.rank;
    if (report.first_failure == number || !has_failure_to_show(report, rank)) continue;
    if (raised_the_same(report, rank)) {
      same.push_back(number);
      continue;
    }
    if (rank.failure.text.empty()) {
      follow_on.push_back(number);
      continue;
    }
    auto exception = exception_line(rank.failure.text);
    const auto at = std::find_if(by_exception.begin(), by_exception.end(),
                                 [&](const auto& entry) { return entry.first == exception; });
    if (at == by_exception.end())
      by_exception.emplace_back(std::move(exception), std::vector<int>{number});
    else
      at->second.push_back(number);
  }
  std::vector<std::string> lines;
  if (!same.empty()) lines.push_back(describe_ranks(same) + " raised the same");
  if (!follow_on.empty()) {
    const auto& first = report.ranks[static_cast<std::size_t>(follow_on.front())];
    lines.push_back(fmt::format("{} then failed for a lost connection: {}",
                                describe_ranks(follow_on),
                                clipped(last_exception(first.last_stderr))));
  }
  std::vector<int> rest;
  for (const auto& [exception, ranks] : by_exception) {
    if (lines.size() < kMostOthers)
      lines.push_back(fmt::format("{}: {}", describe_ranks(ranks), exception));
    else
      rest.insert(rest.end(), ranks.begin(), ranks.end());
  }
  std::sort(rest.begin(), rest.end());
  if (!rest.empty()) lines.push_back(describe_ranks(rest) + ": other failures");
  return lines;
}

}  // namespace hvdrun
