// Checkpoints that several ranks save and load, and calls that are refused.
#include "checkpoint/checkpoints.hpp"

#include "model.hpp"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace libhvd::checkpoint::test {
namespace {

using Steps = std::vector<std::uint64_t>;

class CheckpointsOnRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToFour, CheckpointsOnRanks, testing::Values(1, 2, 3, 4));

TEST_P(CheckpointsOnRanks, SavedStateIsLoadedOnEveryRank) {
  const TemporaryFolder folder;
  run_ranks(GetParam(), [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.file("run/a"));
    EXPECT_EQ(load(*checkpoints, communicator), -1) << "an empty folder is no error";
    EXPECT_TRUE(save(*checkpoints, communicator, 10).ok());
    EXPECT_TRUE(save(*checkpoints, communicator, 20, 0.5).ok());
    EXPECT_EQ(load(*checkpoints, communicator), 20);
  });
  EXPECT_EQ(steps_in(folder.file("run/a")), (Steps{20, 10}));
}

// The state has several blocks, and tensors that begin and end within blocks.
TEST_P(CheckpointsOnRanks, LargeTensorsAreSavedAndLoaded) {
  const TemporaryFolder folder;
  run_ranks(GetParam(), [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path());
    Model model(5'000'000);
    model.fill(3);
    EXPECT_TRUE(checkpoints->save(communicator, model.items(), 3, {}).ok());
    model.fill(4);  // save() has copied the state
    auto items = model.items();
    const auto found = checkpoints->load(communicator, items, HVD_NEWEST);
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ(model.seed(), 3);
    EXPECT_GT((*found)->index.blocks.count(), 4u);
  });
}

TEST(Checkpoints, AreLoadedByAnotherNumberOfRanks) {
  const TemporaryFolder folder;
  run_ranks(3, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path());
    EXPECT_TRUE(save(*checkpoints, communicator, 7).ok());
  });
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), {.read_only = true});
    EXPECT_EQ(load(*checkpoints, communicator), 7);
  });
}

TEST(Checkpoints, SaveTheStateOfRank0) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path());
    Model model;
    model.fill(communicator.rank() == 0 ? 5 : 49);  // the text has another length, too
    EXPECT_TRUE(checkpoints->save(communicator, model.items(), 5, {}).ok());
    EXPECT_EQ(load(*checkpoints, communicator), 5);
  });
}

TEST(Checkpoints, KeepTheLastAndTheBest) {
  const TemporaryFolder folder;
  const Options options{.retention = {.keep_last = 2, .best = HVD_BEST_MIN}};
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), options);
    EXPECT_TRUE(save(*checkpoints, communicator, 1, 0.5).ok());
    EXPECT_TRUE(save(*checkpoints, communicator, 2, 0.1).ok());
    EXPECT_TRUE(save(*checkpoints, communicator, 3, 0.3).ok());
    EXPECT_TRUE(save(*checkpoints, communicator, 4, 0.2).ok());
    EXPECT_TRUE(save(*checkpoints, communicator, 5).ok());
    EXPECT_EQ(load(*checkpoints, communicator, HVD_THE_BEST), 2);
    EXPECT_EQ(load(*checkpoints, communicator), 5);
  });
  EXPECT_EQ(steps_in(folder.path()), (Steps{5, 4, 2}));
  // A later run must know the best checkpoint of this one.
  run_ranks(1, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), options);
    EXPECT_TRUE(save(*checkpoints, communicator, 6, 0.15).ok());
    EXPECT_TRUE(save(*checkpoints, communicator, 7, 0.05).ok());
  });
  EXPECT_EQ(steps_in(folder.path()), (Steps{7, 6}));
}

TEST(Checkpoints, AMetricThatIsNotFiniteIsNeverTheBest) {
  const TemporaryFolder folder;
  run_ranks(1, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path(), {.retention = {3, HVD_BEST_MAX}});
    testing::internal::CaptureStderr();
    EXPECT_TRUE(save(*checkpoints, communicator, 1, std::nan("")).ok());
    EXPECT_NE(testing::internal::GetCapturedStderr().find("the metric of step 1 is nan"),
              std::string::npos);
    Model model;
    auto items = model.items();
    const auto none = checkpoints->load(communicator, items, HVD_THE_BEST);
    ASSERT_FALSE(none.ok());
    EXPECT_NE(none.error().message.find("no checkpoint"), std::string::npos);
    EXPECT_TRUE(save(*checkpoints, communicator, 2, -1.0).ok());
    EXPECT_EQ(load(*checkpoints, communicator, HVD_THE_BEST), 2);
  });
}

// After a restart from an older step, a checkpoint with a higher step is not the newest.
TEST(Checkpoints, NewestIsTheLastSavedAndNotTheHighestStep) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    {
      auto checkpoints = open(communicator, folder.path());
      EXPECT_TRUE(save(*checkpoints, communicator, 100).ok());
      EXPECT_TRUE(save(*checkpoints, communicator, 200).ok());
      EXPECT_TRUE(save(*checkpoints, communicator, 150).ok());
    }
    if (communicator.rank() == 0) {
      EXPECT_EQ(steps_in(folder.path()), (Steps{150, 200, 100}));
    }
    EXPECT_TRUE(communicator.barrier({}).ok());
    auto checkpoints = open(communicator, folder.path());
    EXPECT_EQ(load(*checkpoints, communicator), 150);
    EXPECT_TRUE(save(*checkpoints, communicator, 150).ok()) << "the same step may be saved again";
    EXPECT_EQ(load(*checkpoints, communicator), 150);
  });
  EXPECT_EQ(steps_in(folder.path()), (Steps{150, 150, 200}));
}

TEST(Checkpoints, LoadIntoADifferentStateFailsOnEveryRankAndChangesNothing) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path());
    EXPECT_TRUE(save(*checkpoints, communicator, 1).ok());
    Model model(2999);
    model.fill(8);
    auto items = model.items();
    items[3].description.name = "era";
    const auto found = checkpoints->load(communicator, items, HVD_NEWEST);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().status, HVD_ERROR_MISMATCH);
    EXPECT_NE(found.error().message.find(
                  "missing: \"era\" (int64 []); not expected: \"epoch\" (int64 []); "
                  "\"weights\" is float32 [3000] and not float32 [2999]"),
              std::string::npos)
        << found.error().message;
    EXPECT_EQ(model.seed(), 8);
    EXPECT_EQ(load(*checkpoints, communicator), 1) << "the next call works";
  });
}

TEST(Checkpoints, DifferentCallsOfRanksFailOnEveryRank) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    const bool second = communicator.rank() == 1;
    auto checkpoints = open(communicator, folder.path());
    Model model(second ? 10 : 20);
    const auto message = message_of(checkpoints->save(communicator, model.items(), 1, {}));
    EXPECT_NE(message.find("\"weights\" is float32 [10] and not float32 [20]"), std::string::npos)
        << message;
    auto items = model.items();
    EXPECT_FALSE(checkpoints->load(communicator, items, HVD_NEWEST).ok());
    Model same;
    EXPECT_NE(message_of(checkpoints->save(communicator, same.items(), second ? 1 : 2, {}))
                  .find("different steps"),
              std::string::npos);
    auto twice = same.items();
    if (second) twice.push_back(twice[0]);
    EXPECT_NE(message_of(checkpoints->save(communicator, twice, 1, {}))
                  .find("two items are called \"weights\""),
              std::string::npos);
    auto swapped = same.items();
    if (second) std::swap(swapped[0], swapped[1]);
    EXPECT_NE(message_of(checkpoints->save(communicator, swapped, 1, {})).find("another order"),
              std::string::npos);
    EXPECT_TRUE(save(*checkpoints, communicator, 3).ok());
    EXPECT_FALSE(Checkpoints::open(communicator, folder.file(second ? "a" : "b"), {}).ok());
  });
  EXPECT_EQ(steps_in(folder.path()), (Steps{3}));
}

TEST(Checkpoints, AcceptAnyNamesAndEmptyStates) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path());
    float value = 2;
    std::vector<Item> items;
    for (const std::string& name : {std::string("a/b c\n\"\\"), std::string("\xff\xfe"),
                                    std::string(65535, 'x'), std::string("ü.weight[0]")}) {
      Item item;
      item.description = {name, HVD_FLOAT32, {}, sizeof value};
      item.data = reinterpret_cast<std::byte*>(&value);
      items.push_back(item);
    }
    EXPECT_TRUE(checkpoints->save(communicator, items, 1, {}).ok());
    value = 0;
    EXPECT_TRUE(checkpoints->load(communicator, items, HVD_NEWEST).ok());
    EXPECT_EQ(value, 2);
    EXPECT_TRUE(checkpoints->save(communicator, {}, 2, {}).ok());
    const auto found = checkpoints->load(communicator, {}, HVD_NEWEST);
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ((*found)->index.step, 2u);
  });
}

TEST(Checkpoints, FindDescribesACheckpointWithoutLoadingIt) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path());
    const auto nothing = checkpoints->find(communicator, HVD_NEWEST);
    ASSERT_TRUE(nothing.ok());
    EXPECT_FALSE(*nothing);
    Model model;
    model.fill(9);
    EXPECT_TRUE(checkpoints->save(communicator, model.items(), 9, 1.5).ok());
    const auto found =
        checkpoints->find(communicator, HVD_NEWEST);  // waits until the checkpoint is written
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ((*found)->index.metric, 1.5);
    EXPECT_EQ((*found)->index.ranks, 2u);
    ASSERT_EQ((*found)->index.parts.size(), 5u);
    EXPECT_EQ((*found)->index.parts[0].description, model.items()[0].description);
    EXPECT_FALSE(checkpoints->find(communicator, HVD_THE_BEST).ok()) << "opened without a best";
    EXPECT_FALSE(checkpoints->find(communicator, 7).ok());
  });
}

TEST(Checkpoints, UnusableFoldersFailOnEveryRank) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("file")) << "x";
  run_ranks(2, [&](Communicator& communicator) {
    const auto file = Checkpoints::open(communicator, folder.file("file"), {});
    ASSERT_FALSE(file.ok());
    EXPECT_NE(file.error().message.find("is not a folder but a file"), std::string::npos);
    const auto missing = Checkpoints::open(communicator, folder.file("none"), {.read_only = true});
    ASSERT_FALSE(missing.ok());
    EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
    auto reader = open(communicator, folder.path(), {.read_only = true});
    EXPECT_FALSE(save(*reader, communicator, 1).ok());
  });
}

TEST(Checkpoints, ASecondJobMayOnlyReadTheFolder) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    auto first = open(communicator, folder.path(), {.job = "one"});
    EXPECT_TRUE(save(*first, communicator, 1).ok());
    const auto second = Checkpoints::open(communicator, folder.path(), {.job = "two"});
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find("in use by"), std::string::npos);
    auto reader = open(communicator, folder.path(), {.read_only = true});
    EXPECT_EQ(load(*reader, communicator), 1);
    EXPECT_TRUE(communicator.barrier({}).ok());
    first.reset();
    EXPECT_TRUE(communicator.barrier({}).ok());
    auto third = open(communicator, folder.path());
    EXPECT_TRUE(save(*third, communicator, 2).ok());
  });
}

TEST(Checkpoints, LeftoversOfDeadWritersAreRemoved) {
  const TemporaryFolder folder;
  write(folder.file(".hvd-checkpoint.some-host.17.0123456789abcdef"), "half");
  write(folder.file("checkpoint-00000000000000000009.0000000004.00000000000000ab.part-00001"),
        "a part of no checkpoint");
  write(folder.file("mine.txt"), "not ours");
  run_ranks(1, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path());
    EXPECT_TRUE(save(*checkpoints, communicator, 1).ok());
  });
  EXPECT_EQ(folder.entries().size(), 3u);  // the lock, mine.txt, one checkpoint
  EXPECT_EQ(names_in(folder.path())[0].save, 5u) << "the part's number is not used again";
}

// RLIMIT_FSIZE simulates a full disk: a write fails in the middle of the file.
TEST(Checkpoints, AFailedWriteIsReportedOnceOnEveryRankAndKeepsTheOldFile) {
  const TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_action = ::signal(SIGXFSZ, SIG_IGN);
  const auto limit = [&](rlim_t bytes) {
    const rlimit changed{std::min(bytes, before.rlim_max), before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &changed), 0);
  };
  run_ranks(2, [&](Communicator& communicator) {
    const bool first = communicator.rank() == 0;
    auto checkpoints = open(communicator, folder.path());
    EXPECT_TRUE(save(*checkpoints, communicator, 1).ok());
    if (first) limit(8192);
    Model model;
    model.fill(2);
    EXPECT_TRUE(checkpoints->save(communicator, model.items(), 2, {}).ok())
        << "the write has begun";
    const std::string next = message_of(checkpoints->save(communicator, model.items(), 3, {}));
    EXPECT_NE(next.find("cannot write"), std::string::npos) << next;
    EXPECT_NE(next.find("the checkpoint of step 3 is being written"), std::string::npos);
    EXPECT_EQ(load(*checkpoints, communicator), 1);
    EXPECT_FALSE(checkpoints->wait(communicator).ok()) << "step 3, which load() did not report";
    EXPECT_TRUE(checkpoints->wait(communicator).ok());
    if (first) limit(before.rlim_cur);
    EXPECT_TRUE(save(*checkpoints, communicator, 4).ok());
  });
  ::signal(SIGXFSZ, old_action);
  EXPECT_EQ(steps_in(folder.path()), (Steps{4, 1}));
  EXPECT_EQ(folder.entries().size(), 3u) << "a partial file is left";
}

// Simulates a file system that is no longer mounted: the path has no folder, or another one.
TEST(Checkpoints, AVanishedFolderFailsSavesUntilItIsBack) {
  const TemporaryFolder top;
  const std::string folder = top.file("mount");
  run_ranks(2, [&](Communicator& communicator) {
    const bool first = communicator.rank() == 0;
    auto checkpoints = open(communicator, folder);
    EXPECT_TRUE(save(*checkpoints, communicator, 1).ok());
    if (first) std::filesystem::rename(folder, top.file("away"));
    EXPECT_NE(message_of(save(*checkpoints, communicator, 2)).find("No such file"),
              std::string::npos);
    if (first) std::filesystem::create_directory(folder);
    EXPECT_NE(message_of(save(*checkpoints, communicator, 3)).find("still mounted?"),
              std::string::npos);
    if (first) {
      std::filesystem::remove(folder);
      std::filesystem::rename(top.file("away"), folder);
    }
    EXPECT_TRUE(save(*checkpoints, communicator, 4).ok());
  });
  EXPECT_EQ(steps_in(folder), (Steps{4, 1}));
}

TEST(Checkpoints, CloseFinishesThePendingWrite) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& communicator) {
    auto checkpoints = open(communicator, folder.path());
    Model model;
    model.fill(1);
    EXPECT_TRUE(checkpoints->save(communicator, model.items(), 1, {}).ok());
    EXPECT_TRUE(checkpoints->close().ok());
    EXPECT_TRUE(checkpoints->close().ok()) << "a second close";
  });
  EXPECT_EQ(steps_in(folder.path()), (Steps{1}));
}

}  // namespace
}  // namespace libhvd::checkpoint::test
