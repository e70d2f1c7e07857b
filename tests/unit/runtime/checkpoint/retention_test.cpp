// Which checkpoints are kept.
#include "checkpoint/retention.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::checkpoint {
namespace {

struct RetentionCase {
  const char* what;
  std::vector<SavedCheckpoint> there;
  std::int64_t keep_last;
  hvd_best best;
  std::vector<std::uint64_t> deleted;  // saves
};

TEST(Retention, KeepsTheLastOnesAndTheBest) {
  const double nan = std::nan("");
  const double infinite = std::numeric_limits<double>::infinity();
  const std::vector<RetentionCase> table{
      {"fewer than are kept", {{10, 1, 0.5}, {20, 2, 0.4}}, 3, HVD_BEST_MIN, {}},
      {"the last", {{10, 1, {}}, {20, 2, {}}, {30, 3, {}}}, 1, HVD_BEST_NONE, {1, 2}},
      {"all", {{10, 1, {}}, {20, 2, {}}}, -1, HVD_BEST_NONE, {}},
      {"the last and the smallest",
       {{10, 1, 0.1}, {20, 2, 0.4}, {30, 3, 0.3}},
       1,
       HVD_BEST_MIN,
       {2}},
      {"the last and the largest",
       {{10, 1, 0.1}, {20, 2, 0.4}, {30, 3, 0.3}},
       1,
       HVD_BEST_MAX,
       {1}},
      {"the first of equal metrics", {{1, 1, 0.1}, {2, 2, 0.1}, {3, 3, 0.3}}, 1, HVD_BEST_MIN, {2}},
      {"NaN is never the best", {{1, 1, nan}, {2, 2, 0.2}, {3, 3, 0.3}}, 1, HVD_BEST_MIN, {1}},
      {"infinity is never the best",
       {{1, 1, -infinite}, {2, 2, 0.2}, {3, 3, 0.3}},
       1,
       HVD_BEST_MIN,
       {1}},
      {"no metric at all", {{1, 1, {}}, {2, 2, {}}}, 1, HVD_BEST_MAX, {1}},
      {"last by save, not step", {{900, 1, {}}, {100, 2, {}}, {200, 3, {}}}, 2, HVD_BEST_NONE, {1}},
  };
  for (const RetentionCase& row : table) {
    std::vector<std::uint64_t> deleted;
    for (const SavedCheckpoint& kept : superfluous(row.there, row.keep_last, row.best)) {
      deleted.insert(deleted.begin(), kept.save);
    }
    EXPECT_EQ(deleted, row.deleted) << row.what;
  }
}

}  // namespace
}  // namespace libhvd::checkpoint
