#include "checkpoint/retention.hpp"

#include <algorithm>
#include <cmath>

namespace libhvd::checkpoint {

std::vector<SavedCheckpoint> by_metric(std::span<const SavedCheckpoint> checkpoints,
                                       hvd_best best) {
  std::vector<SavedCheckpoint> sorted;
  for (const SavedCheckpoint& checkpoint : checkpoints) {
    if (best != HVD_BEST_NONE && checkpoint.metric && std::isfinite(*checkpoint.metric))
      sorted.push_back(checkpoint);
  }
  std::ranges::sort(sorted, [best](const SavedCheckpoint& a, const SavedCheckpoint& b) {
    if (*a.metric == *b.metric) return a.save < b.save;
    return best == HVD_BEST_MIN ? *a.metric < *b.metric : *a.metric > *b.metric;
  });
  return sorted;
}

std::vector<SavedCheckpoint> superfluous(std::span<const SavedCheckpoint> checkpoints,
                                         std::int64_t keep_last, hvd_best best) {
  if (keep_last < 0) return {};
  const std::vector<SavedCheckpoint> good = by_metric(checkpoints, best);
  std::vector<SavedCheckpoint> rest(checkpoints.begin(), checkpoints.end());
  std::ranges::sort(
      rest, [](const SavedCheckpoint& a, const SavedCheckpoint& b) { return a.save > b.save; });
  rest.erase(rest.begin(),
             rest.begin() + std::min(keep_last, static_cast<std::int64_t>(rest.size())));
  std::erase_if(rest, [&](const SavedCheckpoint& checkpoint) {
    return !good.empty() && good.front().save == checkpoint.save &&
           good.front().step == checkpoint.step;
  });
  return rest;
}

}  // namespace libhvd::checkpoint
