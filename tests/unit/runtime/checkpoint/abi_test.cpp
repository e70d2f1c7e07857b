// hvd/checkpoint.h and checkpoint.hpp in jobs of processes.
#include "support.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/checkpoint.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace libhvd::test {
namespace {

// Expects that each rank reports "ok".
void expect_ok(Job& job, int size) {
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(job.rank(rank).line(), "ok") << "rank " << rank;
  }
}

// Runs the body, and reports "ok" or what it threw.
void report_outcome(const Child::Report& report, const std::function<void()>& body) {
  try {
    body();
    report("ok");
  } catch (const std::exception& error) {
    report(error.what());
  }
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const hvd::Error& error) {
    return error.what();
  }
  return "";
}

TEST(CheckpointAbi, SavesAndLoadsValuesOfEveryKind) {
  const TemporaryFolder folder;
  Job job(2, [&](int, const Child::Report& report) {
    report_outcome(report, [&] {
      hvd::init();
      std::vector<float> weights{1, 2, 3, 4, 5, 6};
      std::vector<double> grows{1};
      std::int32_t epoch = 7;
      std::uint64_t seen = 1ull << 60;
      double rate = 0.1;
      bool warm = true;
      std::string random("\0\1random", 8);
      hvd::State state;
      state.add("weights", std::span(weights), {2, 3});
      state.add("grows", grows);
      state.add("epoch", epoch);
      state.add("seen", seen);
      state.add("rate", rate);
      state.add("warm", warm);
      state.add("random", random);
      hvd::Checkpoints checkpoints(folder.file("c"), {.keep_last = 2, .best = hvd::Best::min});
      require(!checkpoints.load(state), "an empty folder has none");
      require(!checkpoints.find(), "an empty folder has none");
      grows.resize(3, 9);
      checkpoints.save(state, 12, 0.5);
      weights.assign(6, 0);
      grows.assign(3, 0);
      epoch = 0;
      seen = 0;
      rate = 0;
      warm = false;
      random = "";
      const auto loaded = checkpoints.load(state, hvd::Which::best);
      require(loaded && loaded->step == 12 && loaded->metric == 0.5, "step and metric");
      require(loaded->path.ends_with(".hvd"), loaded->path);
      require(weights == std::vector<float>{1, 2, 3, 4, 5, 6}, "weights");
      require(grows == std::vector<double>{1, 9, 9}, "grows");
      require(epoch == 7 && seen == 1ull << 60 && rate == 0.1 && warm, "numbers");
      require(random == std::string("\0\1random", 8), "bytes");
      const auto found = checkpoints.find();
      require(found && found->items.size() == 7 && found->items[0].name == "weights", "find");
      require(found->items[0].shape == std::vector<std::int64_t>{2, 3}, "shape");
      require(found->items[6].type == HVD_ITEM_BYTES && found->items[6].bytes == 8, "bytes");
      checkpoints.wait();
      checkpoints.close();
      hvd::shutdown();
    });
  });
  expect_ok(job, 2);
}

TEST(CheckpointAbi, InvalidCallsOfOneRankFailOnEveryRank) {
  const TemporaryFolder folder;
  Job job(2, [&](int rank, const Child::Report& report) {
    report_outcome(report, [&] {
      hvd::init();
      require(hvd_checkpoints_open(nullptr, nullptr, nullptr) == HVD_ERROR_INVALID_ARGUMENT,
              "null");
      hvd_checkpoints_options options{};
      options.struct_size = rank == 0 ? sizeof options : 3;
      hvd_checkpoints* handle = nullptr;
      require(hvd_checkpoints_open(folder.path().c_str(), &options, &handle) ==
                  HVD_ERROR_INVALID_ARGUMENT,
              "struct_size");
      require(hvd_checkpoints_open(folder.path().c_str(), nullptr, &handle) == HVD_OK, "open");
      require(hvd_checkpoints_save(rank == 0 ? nullptr : handle, nullptr, 0, 1, nullptr) ==
                  HVD_ERROR_INVALID_ARGUMENT,
              "handle");
      hvd_tensor_view item{};
      item.name = "x";
      item.type = HVD_INT8;
      item.dims = rank;  // without a shape on rank 1
      char value = 3;
      item.data = &value;
      item.bytes = 1;
      require(hvd_checkpoints_save(handle, &item, 1, 1, nullptr) == HVD_ERROR_INVALID_ARGUMENT,
              "shape");
      item.dims = 0;
      require(hvd_checkpoints_save(handle, &item, 1, 1, nullptr) == HVD_OK, hvd_last_error());
      hvd_checkpoint checkpoint{};
      require(hvd_checkpoints_find(handle, HVD_NEWEST, &checkpoint) == HVD_ERROR_INVALID_ARGUMENT,
              "struct_size");
      require(hvd_checkpoints_load(handle, &item, 1, HVD_NEWEST, nullptr) == HVD_OK, "load");
      require(hvd_checkpoints_item(handle, 1, &item) == HVD_ERROR_INVALID_ARGUMENT, "no item 1");
      // Without a callback, bytes need room for exactly their length.
      char text[4] = "abc";
      item = {.name = "t",
              .type = HVD_ITEM_BYTES,
              .dims = 0,
              .shape = nullptr,
              .data = text,
              .bytes = 3,
              .resize = nullptr,
              .context = nullptr};
      require(hvd_checkpoints_save(handle, &item, 1, 2, nullptr) == HVD_OK, "bytes");
      require(hvd_checkpoints_load(handle, &item, 1, HVD_NEWEST, nullptr) == HVD_OK, "bytes");
      item.bytes = 2;
      require(hvd_checkpoints_load(handle, &item, 1, HVD_NEWEST, nullptr) == HVD_ERROR_MISMATCH,
              "room");
      hvd::shutdown();
      require(hvd_checkpoints_wait(handle) == HVD_ERROR_NOT_INITIALIZED, "after shutdown");
      require(hvd_checkpoints_close(handle) == HVD_OK, "close");
      require(hvd_checkpoints_close(nullptr) == HVD_OK, "close null");
    });
  });
  expect_ok(job, 2);
}

TEST(CheckpointAbi, ShutdownBeforeCloseLosesNothing) {
  const TemporaryFolder folder;
  Job job(2, [&](int, const Child::Report& report) {
    report_outcome(report, [&] {
      hvd::init();
      std::vector<float> weights(1'000'000, 2);
      hvd::State state;
      state.add("weights", weights);
      hvd::Checkpoints checkpoints(folder.path());
      checkpoints.save(state, 1);
      hvd::shutdown();
      checkpoints.close();
    });
  });
  expect_ok(job, 2);
  EXPECT_EQ(folder.entries().size(), 2u);
}

// Each rank calls exit(3) with an open handle, while the checkpoint is written.
TEST(CheckpointAbi, ExitWithoutCloseFinishesTheWriting) {
  const TemporaryFolder folder;
  Job job(2, [&](int, const Child::Report& report) {
    report_outcome(report, [&] {
      hvd::init();
      std::vector<float> weights(4'000'000, 2);
      hvd::State state;
      state.add("weights", weights);
      hvd_checkpoints* handle = nullptr;
      hvd_checkpoints_open(folder.path().c_str(), nullptr, &handle);
      const auto items = state.items();
      hvd_checkpoints_save(handle, items.data(), items.size(), 1, nullptr);
    });
    std::exit(0);
  });
  expect_ok(job, 2);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job.rank(rank).wait(), 0);
  EXPECT_EQ(folder.entries().size(), 2u) << "the lock and the checkpoint";
}

TEST(CheckpointAbi, ADeadRankFailsTheNextSaveAndLeavesNoPartOfIt) {
  const TemporaryFolder folder;
  for (const bool sharded : {false, true}) {
    Job job(3, [&](int rank, const Child::Report& report) {
      hvd::init();
      std::vector<float> weights(100'000, 2);
      hvd::State state;
      state.add("weights", weights);
      hvd::Checkpoints checkpoints(folder.path(), {.sharded = sharded});
      checkpoints.save(state, 1);
      if (rank == 2) {
        checkpoints.wait();
        report("ok");
        ::pause();
      }
      checkpoints.wait();
      report("ok");
      const std::string error = error_of([&] { checkpoints.save(state, 2); });
      report(error.find("rank 2") != std::string::npos ? "ok" : error);
      checkpoints.close();
      report("ok");
    });
    expect_ok(job, 3);
    job.rank(2).kill();
    for (int line = 0; line < 2; ++line) expect_ok(job, 2);
    for (const int rank : {0, 1}) EXPECT_EQ(job.rank(rank).wait(), 0);
    bool has_step_1 = false;
    for (const std::string& name : folder.entries()) {
      has_step_1 = has_step_1 || name.starts_with("checkpoint-00000000000000000001.");
      EXPECT_FALSE(name.starts_with("checkpoint-00000000000000000002.")) << name;
      EXPECT_FALSE(name.starts_with(".hvd-checkpoint.")) << name << " is unfinished";
    }
    EXPECT_TRUE(has_step_1);
  }
}

// Saves 100,000 numbers of this value, and checks that they can be loaded.
void save_and_load(hvd::Checkpoints& checkpoints, std::uint64_t step) {
  std::vector<float> weights(100'000, static_cast<float>(step));
  hvd::State state;
  state.add("weights", weights);
  checkpoints.save(state, step);
  weights.assign(weights.size(), 0);
  const auto loaded = checkpoints.load(state);
  require(loaded && loaded->step == step && weights.back() == static_cast<float>(step), "load");
}

// What the first session has left unfinished is finished. The ranks change their numbers.
TEST(CheckpointAbi, AHandleIsUsedInLaterSessions) {
  for (const bool sharded : {false, true}) {
    const TemporaryFolder folder;
    Job job(2, [&](int, const auto& report) {
      report_outcome(report, [&] {
        hvd::init();
        hvd::Checkpoints checkpoints(folder.path(), {.sharded = sharded});
        std::vector<float> weights(1'000'000, 1);
        hvd::State state;
        state.add("weights", weights);
        checkpoints.save(state, 1);
        hvd::shutdown();
        hvd::init({.ranks = {1, 0}});
        const auto found = checkpoints.find();
        require(found && found->step == 1, "the unfinished checkpoint");
        save_and_load(checkpoints, 2);
        hvd::shutdown();
        hvd::init();
        save_and_load(checkpoints, 3);
        const std::string error = error_of([&] { hvd::Checkpoints second(folder.path()); });
        require(error.find("in use by this same process") != std::string::npos, error);
        checkpoints.close();
        hvd::shutdown();
      });
    });
    expect_ok(job, 2);
  }
}

TEST(CheckpointAbi, SurvivorsOfADeadRankUseTheHandle) {
  for (const bool sharded : {false, true}) {
    const TemporaryFolder folder;
    Job job(3, [&](int rank, const auto& report) {
      hvd::init();
      hvd::Checkpoints checkpoints(folder.path(), {.sharded = sharded});
      save_and_load(checkpoints, 1);
      report("ok");
      if (rank == 0) ::pause();
      report_outcome(report, [&] {
        hvd::State state;
        require(error_of([&] { checkpoints.save(state, 2); }).find("rank 0") != std::string::npos,
                "the dead rank");
        hvd::shutdown();
        hvd::init({.ranks = {1, 2}});
        const auto found = checkpoints.find();
        require(found && found->step == 1, "the last whole checkpoint");
        save_and_load(checkpoints, 2);
        checkpoints.close();
        hvd::shutdown();
      });
    });
    expect_ok(job, 3);
    job.rank(0).kill();
    for (const int rank : {1, 2}) EXPECT_EQ(job.rank(rank).line(), "ok");
  }
}

TEST(CheckpointAbi, AForkedChildCannotCloseTheHandle) {
  const TemporaryFolder folder;
  Job job(1, [&](int, const Child::Report& report) {
    report_outcome(report, [&] {
      hvd::init();
      hvd::State state;
      hvd_checkpoints* handle = nullptr;
      require(hvd_checkpoints_open(folder.path().c_str(), nullptr, &handle) == HVD_OK, "open");
      const pid_t child = ::fork();
      if (child == 0) std::_Exit(hvd_checkpoints_close(handle) == HVD_ERROR_FORKED ? 0 : 1);
      int status = -1;
      ::waitpid(child, &status, 0);
      require(status == 0, "close in the child");
      require(hvd_checkpoints_save(handle, nullptr, 0, 1, nullptr) == HVD_OK, "save");
      require(hvd_checkpoints_close(handle) == HVD_OK, "close");
      hvd::shutdown();
    });
  });
  expect_ok(job, 1);
}

}  // namespace
}  // namespace libhvd::test
