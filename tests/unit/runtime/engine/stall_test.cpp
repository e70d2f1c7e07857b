// Ranks that wait too long for others: a line that says for whom, then an error.
#include "submit.hpp"

#include <future>
#include <mutex>

#include <hvd/hvd.hpp>

namespace libhvd::test {
namespace {

TEST(DescribeStall, GroupsByWhomIsWaitedFor) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  EXPECT_EQ(describe_stall({{"allreduce \"a\"", {2}}}, 60 * kSecond),
            "allreduce \"a\" has waited 60 s for rank 2");
  std::vector<Waiting> many;
  for (int i = 0; i < 7; ++i) many.push_back({"t" + std::to_string(i), {1, 3}});
  many.push_back({"last", {2}});
  EXPECT_EQ(describe_stall(many, 61 * kSecond),
            "t0, t1, t2, t3, t4 and 2 more have waited 61 s for ranks 1,3; last has waited 61 s "
            "for rank 2");
}

struct Said {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::promise<void> first;

  StallListener listener() {
    StallListener listener;
    listener.say = [this](const std::string& text) {
      const std::lock_guard lock(mutex);
      if (lines.empty()) first.set_value();
      lines.push_back(text);
    };
    return listener;
  }
};

EngineSettings impatient(int warning_ms, int error_ms = 0) {
  EngineSettings settings;
  settings.stall_warning = std::chrono::milliseconds(warning_ms);
  settings.stall_error = std::chrono::milliseconds(error_ms);
  return settings;
}

// The late rank has submitted nothing; then something else.
TEST(Stall, OneRankSaysForWhomAllWait) {
  for (const bool other_first : {false, true}) {
    Said said;
    auto come = said.first.get_future().share();
    run_ranks(3, [&](Communicator& communicator) {
      const auto engine = Engine::start(communicator.second(),
                                        {.settings = impatient(30), .listener = said.listener()});
      ASSERT_TRUE(engine.ok());
      const Rank rank{**engine, communicator, communicator.rank(), 3};
      std::vector<float> values(4, 1), first(4, 1), second(4, 1);
      const bool late = rank.rank == 1;
      std::int64_t side = 0;
      if (other_first) side = submit(rank, sum_of(late ? "early" : "other", first));
      if (late) come.wait();
      const auto handle = submit(rank, sum_of("x", values));
      if (other_first) {
        const auto counterpart = submit(rank, sum_of(late ? "other" : "early", second));
        EXPECT_EQ(message_of(rank.engine.wait(counterpart)), "");
        EXPECT_EQ(message_of(rank.engine.wait(side)), "");
      }
      EXPECT_EQ(message_of(rank.engine.wait(handle)), "");
      EXPECT_EQ(values[0], 3);
      ASSERT_TRUE(communicator.barrier({}).ok());
      (*engine)->stop();
    });
    ASSERT_FALSE(said.lines.empty());
    bool names_x = false;
    for (const std::string& line : said.lines) {
      names_x = names_x || line.find("allreduce \"x\"") != std::string::npos;
      EXPECT_NE(line.find(" s for rank"), std::string::npos) << line;
    }
    EXPECT_TRUE(names_x) << said.lines[0];
  }
}

TEST(Stall, AfterTheSecondTimeItIsAnErrorOnAllRanks) {
  Said said;
  run_ranks(3, [&](Communicator& communicator) {
    const auto engine = Engine::start(communicator.second(),
                                      {.settings = impatient(20, 40), .listener = said.listener()});
    ASSERT_TRUE(engine.ok());
    const Rank rank{**engine, communicator, communicator.rank(), 3};
    std::vector<float> values(4, 1);
    if (rank.rank == 1) {
      said.first.get_future().wait();
      while (communicator.barrier({}).ok()) {
      }
    } else {
      const auto handle = submit(rank, sum_of("x", values));
      const std::string message = message_of(rank.engine.wait(handle));
      EXPECT_NE(message.find("allreduce \"x\": "), std::string::npos) << message;
      EXPECT_NE(message.find("rank 1 (pid"), std::string::npos) << message;
      EXPECT_NE(message.find("has kept others waiting too long"), std::string::npos) << message;
    }
  });
}

// Those that wait have submitted it and then joined: they wait nevertheless.
TEST(Stall, OfWhatWasSubmittedBeforeJoiningIsSaidToo) {
  Said said;
  run_ranks(3, [&](Communicator& communicator) {
    const auto engine = Engine::start(communicator.second(),
                                      {.settings = impatient(20, 40), .listener = said.listener()});
    ASSERT_TRUE(engine.ok());
    const Rank rank{**engine, communicator, communicator.rank(), 3};
    std::vector<float> values(4, 1);
    if (rank.rank == 1) {
      said.first.get_future().wait();
      while (communicator.barrier({}).ok()) {
      }
    } else {
      const auto handle = submit(rank, sum_of("x", values));
      (*engine)->join();
      const std::string message = message_of(rank.engine.wait(handle));
      EXPECT_NE(message.find("has kept others waiting too long"), std::string::npos) << message;
    }
  });
  ASSERT_FALSE(said.lines.empty());
  EXPECT_NE(said.lines[0].find("allreduce \"x\" has waited 0 s for rank 1"), std::string::npos)
      << said.lines[0];
}

// All that have come have joined, and wait for one that does nothing at all.
TEST(Stall, OfAJoinIsAnErrorOnAllRanks) {
  Signal over;
  Job job(3,
          [&](int rank, const Child::Tell& tell) {
            hvd::init();
            if (rank == 1) {
              over.await();
              float value = 1;
              tell(hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr) == HVD_OK
                       ? "ok"
                       : hvd_last_error());
              return;
            }
            tell(hvd_join(nullptr) == HVD_OK ? "ok" : hvd_last_error());
          },
          {{"HVD_STALL_CHECK_TIME_SECONDS", "0.05"}, {"HVD_STALL_SHUTDOWN_TIME_SECONDS", "0.1"}});
  for (const int rank : {0, 2}) {
    const std::string said = job.rank(rank).line().value_or("nothing");
    EXPECT_NE(said.find("rank 1 (pid"), std::string::npos) << said;
    EXPECT_NE(said.find("has kept others waiting too long"), std::string::npos) << said;
  }
  over.give();
  EXPECT_NE(job.rank(1).line().value_or("nothing"), "ok");
}

TEST(Stall, NothingIsSaidWhenItIsSwitchedOff) {
  Said said;
  EngineSettings settings = impatient(1, 2);
  settings.stall_check = false;
  const StallWatch watch(settings, said.listener());
  EXPECT_FALSE(watch.due(1'000'000'000'000));
  EXPECT_FALSE(watch.over(1'000'000'000'000));
}

}  // namespace
}  // namespace libhvd::test
