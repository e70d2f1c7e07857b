// Which samples a rank takes: tables, and properties for many sizes.
#include "io/shard.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

using Indices = std::vector<std::int64_t>;

Shard make(const ShardOptions& options) {
  auto shard = Shard::make(options);
  if (!shard.ok()) throw std::runtime_error(shard.error().message);
  return std::move(*shard);
}

Indices step_of(const Shard& shard, std::int64_t step) {
  Indices indices;
  EXPECT_TRUE(shard.indices(step, indices).ok());
  return indices;
}

// Returns all samples of one rank in an epoch, step by step.
Indices epoch_of(const ShardOptions& options) {
  const Shard shard = make(options);
  Indices all;
  for (std::int64_t step = 0; step < shard.steps(); ++step) {
    const Indices own = step_of(shard, step);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

// Returns the batches of all ranks together, each sorted. Checks that the ranks agree.
std::vector<Indices> global_batches(ShardOptions options) {
  std::vector<Indices> batches;
  for (options.rank = 0; options.rank < options.size; ++options.rank) {
    const Shard shard = make(options);
    if (options.rank == 0) batches.resize(static_cast<std::size_t>(shard.steps()));
    EXPECT_EQ(shard.steps(), static_cast<std::int64_t>(batches.size()));
    for (std::int64_t step = 0; step < shard.steps(); ++step) {
      const Indices own = step_of(shard, step);
      auto& batch = batches[static_cast<std::size_t>(step)];
      batch.insert(batch.end(), own.begin(), own.end());
      if (options.rank == options.size - 1) {
        EXPECT_EQ(*shard.batch_size(step), static_cast<std::int64_t>(batch.size()));
      }
    }
  }
  for (auto& batch : batches) std::sort(batch.begin(), batch.end());
  return batches;
}

Indices sorted_union(const std::vector<Indices>& batches) {
  Indices all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  std::sort(all.begin(), all.end());
  return all;
}

Indices range(std::int64_t count) {
  Indices numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

TEST(Shard, UnevenUsesEverySampleOnceInTheSameBatchesForEverySize) {
  for (const std::int64_t samples : {0, 1, 2, 7, 8, 23, 64, 101}) {
    for (const std::int64_t batch : {1, 3, 8, 50, 1000}) {
      const ShardOptions options{.samples = samples, .batch = batch, .epoch = 2, .seed = 9};
      const auto alone = global_batches(options);
      EXPECT_EQ(sorted_union(alone), range(samples));
      EXPECT_EQ(static_cast<std::int64_t>(alone.size()), (samples + batch - 1) / batch);
      for (int size = 2; size <= 9; ++size) {
        ShardOptions shared = options;
        shared.size = size;
        EXPECT_EQ(global_batches(shared), alone)
            << samples << " samples, batch " << batch << ", " << size << " ranks";
      }
    }
  }
}

TEST(Shard, UnevenPartsDifferByAtMostOne) {
  for (int size = 1; size <= 9; ++size) {
    std::set<std::size_t> sizes;
    for (int rank = 0; rank < size; ++rank) {
      const ShardOptions options{.samples = 31, .batch = 31, .rank = rank, .size = size};
      sizes.insert(step_of(make(options), 0).size());
    }
    EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1u) << size << " ranks";
  }
}

TEST(Shard, WithoutShufflingKeepsTheOrderOfTheData) {
  ShardOptions options{.samples = 10, .batch = 4, .shuffle = false, .rank = 0, .size = 3};
  EXPECT_EQ(epoch_of(options), (Indices{0, 4}));
  options.rank = 1;
  EXPECT_EQ(epoch_of(options), (Indices{1, 5, 8}));
  options.rank = 2;
  EXPECT_EQ(epoch_of(options), (Indices{2, 3, 6, 7, 9}));
}

// The order of 10 samples with seed 0 in epoch 0, by docs/reference/formats/shuffle.md.
TEST(Shard, DividesThePermutation) {
  ShardOptions options{.samples = 10, .batch = 4, .rank = 0, .size = 2};
  EXPECT_EQ(epoch_of(options), (Indices{6, 9, 1, 8, 7}));
  options.rank = 1;
  EXPECT_EQ(epoch_of(options), (Indices{0, 2, 4, 5, 3}));
}

TEST(Shard, EpochAndSeedChangeTheOrder) {
  const ShardOptions options{.samples = 100, .batch = 10};
  ShardOptions other_epoch = options;
  other_epoch.epoch = 1;
  ShardOptions other_seed = options;
  other_seed.seed = 1;
  EXPECT_EQ(epoch_of(options), epoch_of(options));
  EXPECT_NE(epoch_of(options), epoch_of(other_epoch));
  EXPECT_NE(epoch_of(options), epoch_of(other_seed));
}

// torch.utils.data.DistributedSampler(shuffle=False) by its documented rules, read by a DataLoader
// with batch / size samples a rank.
Indices torch_sampler(std::int64_t samples, int rank, int size, bool drop_last) {
  const std::int64_t each = drop_last ? samples / size : (samples + size - 1) / size;
  Indices indices;
  for (std::int64_t i = rank; i < each * size; i += size) indices.push_back(i % samples);
  return indices;
}

TEST(Shard, PadAndDropAgreeWithTorch) {
  for (const std::int64_t samples : {0, 1, 2, 7, 8, 23, 64, 101}) {
    for (int size = 1; size <= 9; ++size) {
      for (int rank = 0; rank < size; ++rank) {
        ShardOptions options{.samples = samples,
                             .batch = std::int64_t{3} * size,
                             .shuffle = false,
                             .remainder = HVD_REMAINDER_PAD,
                             .rank = rank,
                             .size = size};
        EXPECT_EQ(epoch_of(options), torch_sampler(samples, rank, size, false))
            << samples << " samples, rank " << rank << " of " << size;
        options.remainder = HVD_REMAINDER_DROP;
        EXPECT_EQ(epoch_of(options), torch_sampler(samples, rank, size, true))
            << samples << " samples, rank " << rank << " of " << size;
      }
    }
  }
}

TEST(Shard, PadRepeatsFromTheBeginningOfTheOrder) {
  ShardOptions options{.samples = 10, .batch = 4, .remainder = HVD_REMAINDER_PAD, .size = 4};
  Indices last;
  for (options.rank = 0; options.rank < 4; ++options.rank) {
    const Indices own = step_of(make(options), 2);
    last.insert(last.end(), own.begin(), own.end());
  }
  EXPECT_EQ(last, (Indices{7, 3, 6, 9}));  // the order is 6 9 0 2 1 8 4 5 7 3
}

TEST(Shard, PadRepeatsFewSamplesForManyRanks) {
  ShardOptions options{
      .samples = 2, .batch = 7, .shuffle = false, .remainder = HVD_REMAINDER_PAD, .size = 7};
  Indices all;
  for (options.rank = 0; options.rank < 7; ++options.rank) {
    const Indices own = epoch_of(options);
    all.insert(all.end(), own.begin(), own.end());
  }
  EXPECT_EQ(all, (Indices{0, 1, 0, 1, 0, 1, 0}));
}

TEST(Shard, FullBatchesOfPadAndDropAreEqualForEverySize) {
  for (const auto remainder : {HVD_REMAINDER_PAD, HVD_REMAINDER_DROP}) {
    ShardOptions options{.samples = 100, .batch = 12, .remainder = remainder};
    const auto alone = global_batches(options);
    for (const int size : {2, 3, 4, 6}) {
      options.size = size;
      const auto shared = global_batches(options);
      for (std::size_t step = 0; step < 8; ++step) EXPECT_EQ(shared[step], alone[step]);
    }
  }
}

TEST(Shard, PartsAreExactWhereAProductWouldOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr int kRanks = std::numeric_limits<int>::max();
  EXPECT_EQ(part_of(kMost, 0, kRanks).begin, 0);
  const Part last = part_of(kMost, kRanks - 1, kRanks);
  EXPECT_EQ(last.begin + last.count, kMost);
  // floor(kMost / 3), floor(2 kMost / 3): kMost is 3 · 3074457345618258602 + 1.
  EXPECT_EQ(part_of(kMost, 1, 3).begin, 3074457345618258602);
  EXPECT_EQ(part_of(kMost, 2, 3).begin, 6148914691236517204);
}

TEST(Shard, ManySamplesWithoutShufflingTakeNoMemory) {
  const ShardOptions options{.samples = std::int64_t{1} << 62,
                             .batch = 1000,
                             .shuffle = false,
                             .remainder = HVD_REMAINDER_UNEVEN,
                             .rank = 2,
                             .size = 3};
  const Shard shard = make(options);
  EXPECT_EQ(shard.steps(), (std::int64_t{1} << 62) / 1000 + 1);
  EXPECT_EQ(step_of(shard, shard.steps() - 1).back(), (std::int64_t{1} << 62) - 1);
}

TEST(Shard, ABatchMayBeVeryLarge) {
  const ShardOptions options{.samples = 5, .batch = std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(make(options).steps(), 1);
  EXPECT_EQ(epoch_of(options).size(), 5u);
}

struct InvalidCase {
  ShardOptions options;
  hvd_status status;
  std::string text;
};

TEST(Shard, InvalidOptionsFailWithTheirNames) {
  const ShardOptions good{.samples = 10, .batch = 4, .size = 2};
  const auto with = [&](auto change) {
    ShardOptions options = good;
    change(options);
    return options;
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<InvalidCase> cases{
      {with([](auto& o) { o.samples = -1; }), HVD_ERROR_INVALID_ARGUMENT, "samples is -1"},
      {with([](auto& o) { o.samples = kMost; }), HVD_ERROR_INVALID_ARGUMENT, "samples is 92233"},
      {with([](auto& o) { o.samples = std::int64_t{1} << 62; }), HVD_ERROR_SYSTEM,
       "this machine has"},
      {with([](auto& o) { o.batch = 0; }), HVD_ERROR_INVALID_ARGUMENT, "batch is 0"},
      {with([](auto& o) { o.batch = -64; }), HVD_ERROR_INVALID_ARGUMENT, "batch is -64"},
      {with([](auto& o) { o.epoch = -1; }), HVD_ERROR_INVALID_ARGUMENT, "epoch is -1"},
      {with([](auto& o) { o.size = 0; }), HVD_ERROR_INVALID_ARGUMENT, "size is 0"},
      {with([](auto& o) { o.rank = 2; }), HVD_ERROR_INVALID_ARGUMENT, "rank 2 is not a rank of 0"},
      {with([](auto& o) { o.rank = -1; }), HVD_ERROR_INVALID_ARGUMENT, "rank -1 is not"},
      {with([](auto& o) { o.remainder = 3; }), HVD_ERROR_INVALID_ARGUMENT, "remainder is 3"},
      {with([](auto& o) {
         o.batch = 5;
         o.remainder = HVD_REMAINDER_PAD;
       }),
       HVD_ERROR_INVALID_ARGUMENT, "must be a multiple of the size"},
  };
  for (const auto& each : cases) {
    const auto shard = Shard::make(each.options);
    ASSERT_FALSE(shard.ok()) << each.text;
    EXPECT_EQ(shard.error().status, each.status) << each.text;
    EXPECT_NE(shard.error().message.find(each.text), std::string::npos) << shard.error().message;
  }
}

TEST(Shard, StepsOutOfRangeFail) {
  const Shard shard = make({.samples = 10, .batch = 4});
  Indices indices;
  for (const std::int64_t step :
       {std::int64_t{-1}, std::int64_t{3}, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(shard.indices(step, indices).error().status, HVD_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(shard.batch_size(step).error().status, HVD_ERROR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(make({.samples = 0, .batch = 4}).indices(0, indices).error().message,
            "shard: there is no step 0; this epoch has 0 steps");
}

}  // namespace
}  // namespace libhvd
