#include "base/nearest.hpp"

#include <algorithm>
#include <cstddef>

namespace hvdrun {
namespace {

// Names longer than this are not option names; the bound keeps the table small.
constexpr std::size_t kLongestName = 64;

// Optimal string alignment distance.
std::size_t slips_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

bool completes(std::string_view candidate, std::string_view name) {
  return name.size() >= 4 && candidate.substr(0, name.size()) == name;
}

}  // namespace

std::string_view nearest_name(std::string_view name,
                              const std::vector<std::string_view>& candidates) {
  if (name.empty() || name.size() > kLongestName) return {};
  std::string_view best;
  std::size_t fewest = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const auto candidate : candidates) {
    const std::size_t slips = completes(candidate, name) ? 1 : slips_between(name, candidate);
    if (slips < fewest) {
      fewest = slips;
      best = candidate;
    }
  }
  return best;
}

}  // namespace hvdrun
