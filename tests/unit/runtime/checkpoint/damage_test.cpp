// Checkpoints that are cut short or altered. They are refused and named, and the one before is
// loaded.
#include "model.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace libhvd::checkpoint::test {
namespace {

// A folder with checkpoints of steps 1 and 2.
class Damage : public testing::Test {
 protected:
  Damage() {
    run_ranks(1, [&](Communicator& communicator) {
      auto checkpoints = open(communicator, folder_.path());
      for (const std::uint64_t step : {1, 2}) {
        Model model(10);
        model.fill(static_cast<std::int64_t>(step));
        EXPECT_TRUE(checkpoints->save(communicator, model.items(), step, {}).ok());
      }
    });
    for (const FileName& name : names_in(folder_.path())) {
      paths_.push_back(folder_.file(name.text()));
    }
  }

  // Returns the step that `ranks` ranks load; -1: none, -2: an error. Keeps the warnings in
  // warnings_.
  std::int64_t load_small(int ranks = 1) {
    std::vector<std::int64_t> steps(static_cast<std::size_t>(ranks));
    testing::internal::CaptureStderr();
    run_ranks(ranks, [&](Communicator& communicator) {
      auto checkpoints = open(communicator, folder_.path(), {.read_only = true});
      Model model(10);
      auto items = model.items();
      const auto found = checkpoints->load(communicator, items, HVD_NEWEST);
      std::int64_t& step = steps[static_cast<std::size_t>(communicator.rank())];
      if (!found.ok()) {
        step = -2;
        if (communicator.rank() == 0) error_ = found.error().message;
      } else if (*found) {
        step = static_cast<std::int64_t>((*found)->index.step);
        EXPECT_EQ(model.seed(), step);
      } else {
        step = -1;
      }
    });
    warnings_ = testing::internal::GetCapturedStderr();
    for (const std::int64_t step : steps)
      EXPECT_EQ(step, steps[0]) << "all ranks load the same step";
    return steps[0];
  }

  // Returns whether reading the newest file shows that it is damaged.
  bool refused() const {
    const auto file = CheckpointFile::open(folder_.path(), {2, 2});
    if (!file.ok()) return true;
    std::vector<std::byte> room(file->index().blocks.block_bytes);
    for (std::uint64_t block = 0; block < file->index().blocks.count(); ++block) {
      if (!file->read_block(block, room.data()).ok()) return true;
    }
    return false;
  }

  // Replaces the newest file by these bytes, and loads at `ranks` ranks. Expects the file before
  // it, and `why` on stderr.
  void expect_skipped(const std::string& bytes, const std::string& why, int ranks = 1) {
    write(paths_[0], bytes);
    EXPECT_EQ(load_small(ranks), 1) << why;
    EXPECT_NE(warnings_.find("hvd: skipped " + paths_[0] + ": "), std::string::npos) << warnings_;
    EXPECT_NE(warnings_.find(why), std::string::npos) << warnings_;
  }

  // A complete load starts threads, so only one in so many damaged files gets one.
  static constexpr std::size_t kLoadEach = 97;

  const TemporaryFolder folder_;
  std::vector<std::string> paths_;  // the newest first
  std::string warnings_, error_;
};

TEST_F(Damage, EveryFlippedByteIsDetected) {
  const std::string whole = content(paths_[0]);
  ASSERT_EQ(load_small(), 2);
  std::fstream file(paths_[0], std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](std::size_t at, int byte) {
    file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    put(at, whole[at] ^ (1 << (at % 8)));
    ASSERT_TRUE(refused()) << "byte " << at;
    if (at % kLoadEach == 0) {
      ASSERT_EQ(load_small(), 1) << "byte " << at;
    }
    put(at, whole[at]);
  }
  EXPECT_EQ(load_small(), 2);
}

TEST_F(Damage, EveryTruncationIsDetected) {
  for (std::uintmax_t length = content(paths_[0]).size(); length-- > 0;) {
    std::filesystem::resize_file(paths_[0], length);
    ASSERT_TRUE(refused()) << length << " bytes";
    if (length % kLoadEach == 0) {
      ASSERT_EQ(load_small(), 1) << length << " bytes";
    }
  }
}

TEST_F(Damage, WarningsNameTheDamage) {
  const std::string whole = content(paths_[0]);
  expect_skipped("", "it is empty", 2);
  expect_skipped("hello", "it is not a checkpoint", 2);
  expect_skipped(std::string(10000, '\0'), "it is not a checkpoint", 2);
  expect_skipped(whole.substr(0, 4096), "it is cut short", 2);
  expect_skipped(whole.substr(0, 4300), "its end is missing", 2);
  expect_skipped(whole + "more", "its end is missing", 2);
  expect_skipped(content(paths_[1]), "its name is not the one", 2);
  std::string damaged = whole;
  damaged[4100] ^= 1;
  expect_skipped(damaged, "its data is damaged (block 0)", 3);
}

TEST_F(Damage, FoldersFifosAndLinksAreSkipped) {
  std::filesystem::remove(paths_[0]);
  std::filesystem::create_directory(paths_[0]);
  EXPECT_EQ(load_small(), 1);
  std::filesystem::remove(paths_[0]);
  ASSERT_EQ(::mkfifo(paths_[0].c_str(), 0600), 0);
  EXPECT_EQ(load_small(), 1);
  std::filesystem::remove(paths_[0]);
  std::filesystem::create_symlink("nowhere", paths_[0]);
  EXPECT_EQ(load_small(), 1);
}

TEST_F(Damage, NoValidCheckpointFailsOnEveryRank) {
  for (const std::string& path : paths_) write(path, "x");
  EXPECT_EQ(load_small(3), -2);
  EXPECT_NE(error_.find("2 skipped"), std::string::npos) << error_;
  EXPECT_NE(error_.find(paths_[0] + ": it is not a checkpoint"), std::string::npos);
}

// The damage is found when the first blocks are in the buffers already.
TEST_F(Damage, DamageInALateBlockOfALargeFileIsDetected) {
  run_ranks(3, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder_.file("large"));
    Model model(4'000'000);
    for (const std::int64_t step : {1, 2}) {
      model.fill(step);
      EXPECT_TRUE(
          checkpoints->save(communicator, model.items(), static_cast<std::uint64_t>(step), {})
              .ok());
    }
    EXPECT_TRUE(checkpoints->wait(communicator).ok());
    if (communicator.rank() == 0) {
      const std::string path = folder_.file("large/") + names_in(folder_.file("large"))[0].text();
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(13'000'000);
      file << "damage";
    }
    EXPECT_TRUE(communicator.barrier({}).ok());
    auto items = model.items();
    const auto found = checkpoints->load(communicator, items, HVD_NEWEST);
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ((*found)->index.step, 1u);
    EXPECT_EQ(model.seed(), 1);
    // Retention must not keep a damaged checkpoint and remove a good one instead.
    for (const std::int64_t step : {3, 4}) {
      model.fill(step);
      EXPECT_TRUE(
          checkpoints->save(communicator, model.items(), static_cast<std::uint64_t>(step), {})
              .ok());
    }
  });
  EXPECT_EQ(steps_in(folder_.file("large")), (std::vector<std::uint64_t>{4, 3, 2, 1}));
}

}  // namespace
}  // namespace libhvd::checkpoint::test
