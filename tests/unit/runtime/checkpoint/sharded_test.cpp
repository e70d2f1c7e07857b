// Sharded checkpoints, of which each rank writes a part.
#include "model.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::checkpoint::test {
namespace {

using Steps = std::vector<std::uint64_t>;

const Options kSharded{.retention = {.keep_last = 2}, .sharded = true};

std::vector<std::string> parts_in(const std::string& folder) {
  std::vector<std::string> parts;
  for (const FileName& name : names_in(folder)) {
    if (name.is_part) parts.push_back(folder + "/" + name.text());
  }
  return parts;
}

class ShardedSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToFour, ShardedSizes, testing::Values(1, 2, 3, 4));

TEST_P(ShardedSizes, PartsOfThreeRanksAreReadByAnyNumberOfRanks) {
  const TemporaryFolder folder;
  run_ranks(3, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), kSharded);
    for (const std::uint64_t step : {1, 2, 3}) {
      EXPECT_TRUE(save(*checkpoints, communicator, step).ok());
    }
  });
  EXPECT_EQ(steps_in(folder.path()), (Steps{3, 2}));
  EXPECT_EQ(parts_in(folder.path()).size(), 6u);
  run_ranks(GetParam(), [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), kSharded);
    EXPECT_EQ(load(*checkpoints, communicator), 3);
    EXPECT_TRUE(save(*checkpoints, communicator, 4).ok());
    EXPECT_EQ(load(*checkpoints, communicator), 4);
  });
}

TEST(ShardedCheckpoints, PartsWithoutAManifestAreRemoved) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), kSharded);
    EXPECT_TRUE(save(*checkpoints, communicator, 1).ok());
  });
  std::filesystem::remove(folder.file(FileName{1, 1}.text()));
  EXPECT_EQ(parts_in(folder.path()).size(), 2u);
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), kSharded);
    EXPECT_EQ(load(*checkpoints, communicator), -1);
  });
  EXPECT_TRUE(parts_in(folder.path()).empty());
}

TEST(ShardedCheckpoints, ACheckpointWithADamagedOrMissingPartIsSkipped) {
  const TemporaryFolder folder;
  const auto save_two = [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), kSharded);
    EXPECT_TRUE(save(*checkpoints, communicator, 1).ok());
    EXPECT_TRUE(save(*checkpoints, communicator, 2).ok());
  };
  const auto load_one = [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), {.read_only = true});
    EXPECT_EQ(load(*checkpoints, communicator), 1);
  };
  run_ranks(2, save_two);
  const std::string newest = parts_in(folder.path())[0];
  const std::string whole = content(newest);
  for (std::size_t at = 0; at < whole.size(); at += 97) {
    std::string damaged = whole;
    damaged[at] ^= 4;
    write(newest, damaged);
    testing::internal::CaptureStderr();
    run_ranks(2, load_one);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("skipped"), std::string::npos);
  }
  std::filesystem::remove(newest);
  testing::internal::CaptureStderr();
  run_ranks(2, load_one);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("part-0000"), std::string::npos);
  // A part of another checkpoint has the name of this part.
  std::filesystem::copy(parts_in(folder.path()).back(), newest);
  testing::internal::CaptureStderr();
  run_ranks(2, load_one);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("belongs to another"), std::string::npos);
}

// One rank cannot write its part: a folder has the name of the file, so the rename fails.
TEST(ShardedCheckpoints, AFailedPartFailsTheCheckpointOnEveryRank) {
  const TemporaryFolder top;
  const std::string folder = top.file("run");
  run_ranks(3, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder, kSharded);
    EXPECT_TRUE(save(*checkpoints, communicator, 1).ok());
    EXPECT_TRUE(communicator.barrier({}).ok());
    if (communicator.rank() == 0) {
      for (const std::string& part : parts_in(folder)) {
        FileName name = *FileName::parse(std::filesystem::path(part).filename().string());
        if (name.part == 2) {
          name.step = 2;
          name.save = 2;
          std::filesystem::create_directory(folder + "/" + name.text());
        }
      }
    }
    EXPECT_TRUE(communicator.barrier({}).ok());
    const std::string message = message_of(save(*checkpoints, communicator, 2));
    EXPECT_NE(message.find("cannot give"), std::string::npos) << message;
    EXPECT_EQ(load(*checkpoints, communicator), 1);
    EXPECT_TRUE(save(*checkpoints, communicator, 3).ok());
    EXPECT_EQ(load(*checkpoints, communicator), 3);
  });
  EXPECT_EQ(steps_in(folder), (Steps{3, 1}));
}

TEST(ShardedCheckpoints, BytesOfAnotherLengthAreAMismatch) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), kSharded);
    Model model;
    model.fill(communicator.rank() == 0 ? 5 : 49);
    const std::string message = message_of(checkpoints->save(communicator, model.items(), 5, {}));
    EXPECT_NE(message.find("\"text\" is 51 bytes and not 6 bytes"), std::string::npos) << message;
    EXPECT_TRUE(save(*checkpoints, communicator, 6).ok());
  });
}

TEST(ShardedCheckpoints, CloseFinishesTheManifest) {
  const TemporaryFolder folder;
  run_ranks(3, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), kSharded);
    Model model(2'000'000);
    model.fill(1);
    EXPECT_TRUE(checkpoints->save(communicator, model.items(), 1, {}).ok());
    EXPECT_TRUE(checkpoints->close().ok());
  });
  EXPECT_EQ(steps_in(folder.path()), (Steps{1}));
}

TEST(ShardedCheckpoints, AStateWithoutBytesNeedsNoParts) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), kSharded);
    EXPECT_TRUE(checkpoints->save(communicator, {}, 1, {}).ok());
    const auto found = checkpoints->load(communicator, {}, HVD_NEWEST);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(*found);
  });
  EXPECT_TRUE(parts_in(folder.path()).empty());
}

}  // namespace
}  // namespace libhvd::checkpoint::test
