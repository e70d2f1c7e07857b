// Shards through the C ABI and C++: the job's rank and size, and invalid calls.
#include "support.hpp"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/data.hpp>

namespace {

using libhvd::test::Child;
using libhvd::test::Job;

hvd_shard_options options_of(std::int64_t samples) {
  hvd_shard_options options{};
  options.struct_size = sizeof options;
  options.samples = samples;
  options.batch = 4;
  options.size = 1;
  return options;
}

TEST(ShardOfTheJob, UsesTheJobsRankAndSize) {
  Job job(3, [](int, const Child::Report& report) {
    hvd::init();
    hvd::Shard shard({.samples = 10, .batch = 4, .shuffle = false});
    std::string text;
    for (std::int64_t step = 0; step < shard.steps(); ++step) {
      for (const auto sample : shard.step(step)) text += std::to_string(sample);
      text += "/" + std::to_string(shard.batch_size(step)) + " ";
    }
    hvd::shutdown();
    report(text);
  });
  EXPECT_EQ(job.rank(0).line(), "0/4 4/4 /2 ");
  EXPECT_EQ(job.rank(1).line(), "1/4 5/4 8/2 ");
  EXPECT_EQ(job.rank(2).line(), "23/4 67/4 9/2 ");
}

TEST(ShardOfTheJob, FailsWithoutInit) {
  try {
    hvd::Shard shard({.samples = 10, .batch = 4});
    FAIL() << "no exception";
  } catch (const hvd::Error& error) {
    EXPECT_EQ(error.status(), HVD_ERROR_NOT_INITIALIZED);
    EXPECT_NE(std::strstr(error.what(), "rank and size were left to the job"), nullptr);
  }
}

TEST(ShardAbi, NeedsNoInitWhenRankAndSizeAreGiven) {
  hvd::Shard shard({.samples = 10, .batch = 4, .rank = 1, .size = 2});
  EXPECT_EQ(shard.steps(), 3);
  const auto own = shard.step(0);
  EXPECT_EQ(std::vector(own.begin(), own.end()), (std::vector<std::int64_t>{0, 2}));
  hvd::Shard moved = std::move(shard);
  EXPECT_EQ(moved.batch_size(2), 2);
}

TEST(ShardAbi, AnEmptyPartIsANullPointer) {
  hvd_shard_options options = options_of(1);
  options.size = 2;
  hvd_shard* shard = nullptr;
  ASSERT_EQ(hvd_shard_create(&options, &shard), HVD_OK);
  const std::int64_t* indices = &options.samples;
  std::size_t count = 1;
  EXPECT_EQ(hvd_shard_step(shard, 0, &indices, &count), HVD_OK);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(indices, nullptr);
  hvd_shard_free(shard);
}

TEST(ShardAbi, RefusesNullPointers) {
  const hvd_shard_options options = options_of(10);
  hvd_shard* shard = nullptr;
  std::int64_t number = 0;
  std::size_t count = 0;
  const std::int64_t* indices = nullptr;
  EXPECT_EQ(hvd_shard_create(nullptr, &shard), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_shard_create(&options, nullptr), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_shard_steps(nullptr, &number), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_shard_batch_size(nullptr, 0, &number), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_shard_step(nullptr, 0, &indices, &count), HVD_ERROR_INVALID_ARGUMENT);
  hvd_shard_free(nullptr);
}

TEST(ShardAbi, AcceptsOptionsOfOtherVersionsWithoutUnknownFields) {
  struct Longer {
    hvd_shard_options known;
    void* later;
  } longer{options_of(10), nullptr};
  longer.known.struct_size = sizeof longer;
  hvd_shard* shard = nullptr;
  ASSERT_EQ(hvd_shard_create(&longer.known, &shard), HVD_OK);
  hvd_shard_free(shard);
  longer.later = &longer;
  EXPECT_EQ(hvd_shard_create(&longer.known, &shard), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(
      hvd_last_error(),
      "hvd_shard_create: hvd_shard_options asks for what this version of libhvd cannot do");
  longer.known.struct_size = 0;
  EXPECT_EQ(hvd_shard_create(&longer.known, &shard), HVD_ERROR_INVALID_ARGUMENT);
}

TEST(ShardAbi, InvalidOptionsFailWithTheirNames) {
  hvd_shard_options options = options_of(10);
  options.batch = 0;
  hvd_shard* shard = nullptr;
  EXPECT_EQ(hvd_shard_create(&options, &shard), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(hvd_last_error(),
               "hvd_shard_create: shard: batch is 0; it must be at least 1 (it counts the samples "
               "of all ranks together)");
}

}  // namespace
