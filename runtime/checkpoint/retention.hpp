// Which checkpoints of a folder are kept, and which may be deleted. Pure functions and values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <hvd/checkpoint.h>

namespace libhvd::checkpoint {

struct Retention {
  std::int64_t keep_last = 3;  // saves; negative: all
  hvd_best best = HVD_BEST_NONE;
};

// A checkpoint of the folder that can be read.
struct SavedCheckpoint {
  std::uint64_t step = 0;
  std::uint64_t save = 0;
  std::optional<double> metric;

  bool operator==(const SavedCheckpoint&) const = default;
};

// Returns those with a finite metric, the best first; of equal ones the one that was saved first.
// Empty for HVD_BEST_NONE.
std::vector<SavedCheckpoint> by_metric(std::span<const SavedCheckpoint> checkpoints, hvd_best best);

// Returns those that may be deleted: all except the last `keep_last` saves (negative: all) and the
// best one.
std::vector<SavedCheckpoint> superfluous(std::span<const SavedCheckpoint> checkpoints,
                                         std::int64_t keep_last, hvd_best best);

}  // namespace libhvd::checkpoint
