#include "model/rank_set.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <charconv>

namespace hvdrun {
namespace {

constexpr std::string_view kLast = "last";

Error no_set(std::string_view text) {
  return fail("\"" + std::string(text) + "\" is not a set of ranks such as 0,4-7 or last",
              kExitUsage);
}

}  // namespace

Result<int> parse_rank(std::string_view text) {
  if (text == kLast) return -1;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text == "-0") return no_set(text);
  return value;
}

Result<int> settled_rank(int rank, int size) {
  if (rank >= 0) return rank;
  if (rank + size >= 0) return rank + size;
  return fail("there is no rank " + std::to_string(rank) + ": the job has " + plural(size, "rank"),
              kExitUsage);
}

Result<RankSet> RankSet::parse(std::string_view text) {
  RankSet set;
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const auto part = rest.substr(0, comma);
    const auto dash = part.find('-', 1);
    const auto begin = parse_rank(part.substr(0, dash));
    const auto end = dash == std::string_view::npos ? begin : parse_rank(part.substr(dash + 1));
    if (part.empty() || !begin || !end) return no_set(text);
    if (*begin >= 0 && *end >= 0 && *end < *begin)
      return fail("\"" + std::string(part) + "\" runs backwards in a set of ranks", kExitUsage);
    if (*begin < 0 && *end >= 0) return no_set(text);
    if (*end < 0)
      set.from_last_.emplace_back(*begin, *end);
    else
      set.add(*begin, *end);
    if (comma == std::string_view::npos) return set;
    rest.remove_prefix(comma + 1);
  }
}

Result<void> RankSet::settle(int size) {
  for (const auto& [begin, end] : std::exchange(from_last_, {})) {
    HVD_TRY(const int first, settled_rank(begin, size));
    HVD_TRY(const int last, settled_rank(end, size));
    if (last < first)
      return fail("there are no ranks " + std::to_string(first) + " to " + std::to_string(last) +
                      ": the job has " + plural(size, "rank"),
                  kExitUsage);
    add(first, last);
  }
  return {};
}

void RankSet::add(int first, int last) {
  auto at = std::lower_bound(ranges_.begin(), ranges_.end(), first,
                             [](const auto& range, int value) { return range.second < value - 1; });
  while (at != ranges_.end() && at->first - 1 <= last) {
    first = std::min(first, at->first);
    last = std::max(last, at->second);
    at = ranges_.erase(at);
  }
  ranges_.insert(at, {first, last});
}

bool RankSet::contains(int rank) const {
  const auto at =
      std::lower_bound(ranges_.begin(), ranges_.end(), rank,
                       [](const auto& range, int value) { return range.second < value; });
  return at != ranges_.end() && at->first <= rank;
}

std::string RankSet::to_string() const {
  std::string text;
  for (const auto& [first, last] : ranges_) {
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last > first) text += '-' + std::to_string(last);
  }
  for (const auto& [first, last] : from_last_) {
    if (!text.empty()) text += ',';
    text += first == -1 ? std::string(kLast) : std::to_string(first);
    if (last != first) text += '-' + (last == -1 ? std::string(kLast) : std::to_string(last));
  }
  return text;
}

}  // namespace hvdrun
