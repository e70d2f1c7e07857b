#include "model/rank_set.hpp"

#include <algorithm>
#include <charconv>

namespace hvdrun {
namespace {

Result<int> parse_rank(std::string_view text, std::string_view whole) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    return fail("\"" + std::string(whole) + "\" is not a set of ranks such as 0,4-7", kExitUsage);
  return value;
}

}  // namespace

Result<RankSet> RankSet::parse(std::string_view text) {
  RankSet set;
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const auto part = rest.substr(0, comma);
    const auto dash = part.find('-');
    HVD_TRY(const int first, parse_rank(part.substr(0, dash), text));
    int last = first;
    if (dash != std::string_view::npos) {
      HVD_TRY(last, parse_rank(part.substr(dash + 1), text));
    }
    if (last < first)
      return fail("\"" + std::string(part) + "\" counts backwards in a set of ranks", kExitUsage);
    set.add(first, last);
    if (comma == std::string_view::npos) return set;
    rest.remove_prefix(comma + 1);
  }
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
  return text;
}

}  // namespace hvdrun
