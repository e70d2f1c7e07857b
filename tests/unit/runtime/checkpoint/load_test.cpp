// Ranks of one host that see different files. Then rank 0's are broadcast.
#include "model.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace libhvd::checkpoint::test {
namespace {

void save_model(const std::string& folder, std::int64_t seed, std::uint64_t step) {
  run_ranks(1, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder);
    Model model;
    model.fill(seed);
    EXPECT_TRUE(checkpoints->save(communicator, model.items(), step, {}).ok());
  });
}

// Returns what each rank has loaded from ".", which is a different folder for each; -2: an error.
std::vector<std::int64_t> load_from(const std::vector<std::string>& folders) {
  std::vector<std::int64_t> seeds(folders.size(), -2);
  run_ranks(static_cast<int>(folders.size()), [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    ASSERT_EQ(::unshare(CLONE_FS), 0);  // the working directory becomes this thread's own
    ASSERT_EQ(::chdir(folders[rank].c_str()), 0);
    auto checkpoints = open(communicator, ".", {.read_only = true});
    Model model;
    auto items = model.items();
    const auto found = checkpoints->load(communicator, items, HVD_NEWEST);
    if (found.ok()) seeds[rank] = *found ? model.seed() : 0;
  });
  return seeds;
}

void flip_a_byte(const std::string& path) {
  std::string bytes = content(path);
  bytes[bytes.size() / 2] ^= 1;
  write(path, bytes);
}

std::string newest_in(const TemporaryFolder& folder) {
  return folder.file(names_in(folder.path()).at(0).text());
}

TEST(LoadFromOwnView, ARankWithoutTheFileLoadsTheFileOfRank0) {
  const TemporaryFolder folder, empty;
  save_model(folder.path(), 7, 1);
  EXPECT_EQ(load_from({folder.path(), folder.path(), empty.path()}),
            std::vector<std::int64_t>(3, 7));
}

TEST(LoadFromOwnView, ARankWithADifferentFileLoadsTheFileOfRank0) {
  const TemporaryFolder folder, other;
  save_model(folder.path(), 7, 1);
  save_model(other.path(), 8, 1);
  EXPECT_EQ(load_from({folder.path(), other.path()}), std::vector<std::int64_t>(2, 7));
}

TEST(LoadFromOwnView, ADamagedFileOfRank0IsSkippedByAll) {
  const TemporaryFolder folder, empty;
  save_model(folder.path(), 7, 1);
  save_model(folder.path(), 8, 2);
  flip_a_byte(newest_in(folder));
  EXPECT_EQ(load_from({folder.path(), empty.path()}), std::vector<std::int64_t>(2, 7));
}

// It is unknown which rank sees the true file, so none uses it.
TEST(LoadFromOwnView, ADamagedFileOfAnotherRankIsSkippedByAll) {
  const TemporaryFolder folder, copy;
  save_model(folder.path(), 7, 1);
  save_model(folder.path(), 8, 2);
  std::filesystem::copy(folder.path(), copy.path(), std::filesystem::copy_options::recursive);
  flip_a_byte(newest_in(copy));
  testing::internal::CaptureStderr();
  EXPECT_EQ(load_from({folder.path(), copy.path()}), std::vector<std::int64_t>(2, 7));
  const std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_NE(warnings.find("rank 1: its data is damaged"), std::string::npos) << warnings;
}

}  // namespace
}  // namespace libhvd::checkpoint::test
