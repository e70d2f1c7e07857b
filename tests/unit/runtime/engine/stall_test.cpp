// Ranks that wait too long for others: a line that says for whom, then an error.
#include "submit.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
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
  std::condition_variable more;
  std::vector<std::string> lines;

  StallListener listener() {
    StallListener listener;
    listener.report = [this](const std::string& text) {
      const std::lock_guard lock(mutex);
      lines.push_back(text);
      more.notify_all();
    };
    return listener;
  }

  // Returns the first line with this text.
  std::string await(const std::string& text) {
    std::unique_lock lock(mutex);
    const auto has_text = [&](const std::string& line) { return line.find(text) != line.npos; };
    auto found = lines.end();
    more.wait(lock, [&] {
      found = std::find_if(lines.begin(), lines.end(), has_text);
      return found != lines.end();
    });
    return *found;
  }
};

EngineSettings impatient(int warning_ms, int error_ms = 0) {
  EngineSettings settings;
  settings.stall_warning = std::chrono::milliseconds(warning_ms);
  settings.stall_error = std::chrono::milliseconds(error_ms);
  return settings;
}

EngineSettings patient() {
  EngineSettings settings;
  settings.stall_check = false;
  return settings;
}

// The late rank has submitted nothing; then something else.
TEST(Stall, OneRankSaysForWhomAllWait) {
  for (const bool other_first : {false, true}) {
    Said said;
    run_ranks(3, [&](Communicator& communicator) {
      const auto engine = Engine::start(communicator.second(),
                                        {.settings = impatient(30), .listener = said.listener()});
      ASSERT_TRUE(engine.ok());
      const Rank rank{**engine, communicator, communicator.rank(), 3};
      std::vector<float> values(4, 1), first(4, 1), second(4, 1);
      const bool late = rank.rank == 1;
      std::int64_t side = 0;
      if (other_first) side = submit(rank, sum_of(late ? "early" : "other", first));
      if (late) said.await("allreduce \"x\"");
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
    for (const std::string& line : said.lines)
      EXPECT_NE(line.find(" s for rank"), std::string::npos) << line;
  }
}

// Rank 0 is late. Of those that wait, rank 1 alone loses patience.
void run_with_rank_0_late(Said& said, const std::function<void(const Rank&)>& wait) {
  run_ranks(3, [&](Communicator& communicator) {
    const bool watches = communicator.rank() == 1;
    const auto engine = Engine::start(
        communicator.second(),
        {.settings = watches ? impatient(20, 40) : patient(), .listener = said.listener()});
    ASSERT_TRUE(engine.ok());
    const Rank rank{**engine, communicator, communicator.rank(), 3};
    if (rank.rank == 0) {
      said.await("");
      while (communicator.barrier({}).ok()) {
      }
    } else {
      wait(rank);
    }
  });
}

TEST(Stall, AfterTheSecondTimeItIsAnErrorOnAllRanks) {
  Said said;
  std::promise<void> rank_2_waits;
  run_with_rank_0_late(said, [&](const Rank& rank) {
    std::vector<float> values(4, 1);
    if (rank.rank == 1) rank_2_waits.get_future().wait();
    const auto handle = submit(rank, sum_of("x", values));
    if (rank.rank == 2) rank_2_waits.set_value();
    const std::string message = message_of(rank.engine.wait(handle));
    EXPECT_NE(message.find("allreduce \"x\": "), std::string::npos) << message;
    EXPECT_NE(message.find("rank 0 (pid"), std::string::npos) << message;
    EXPECT_NE(message.find("has kept others waiting too long"), std::string::npos) << message;
  });
}

// Those that wait have submitted it and then joined: they wait nevertheless.
TEST(Stall, OfWhatWasSubmittedBeforeJoiningIsSaidToo) {
  Said said;
  std::promise<void> rank_2_waits;
  run_with_rank_0_late(said, [&](const Rank& rank) {
    std::vector<float> values(4, 1);
    if (rank.rank == 1) rank_2_waits.get_future().wait();
    const auto handle = submit(rank, sum_of("x", values));
    rank.engine.join();
    if (rank.rank == 2) rank_2_waits.set_value();
    const std::string message = message_of(rank.engine.wait(handle));
    EXPECT_NE(message.find("has kept others waiting too long"), std::string::npos) << message;
  });
  // Rank 2 is named too where it has not told that it waits.
  const std::string line = said.await("allreduce \"x\" has waited ");
  EXPECT_TRUE(line.find(" s for rank 0") != line.npos || line.find(" s for ranks 0,2") != line.npos)
      << line;
}

// All that have come have joined, and wait for one that does nothing at all. Rank 0 is the first of
// those that have not come, whoever else is late. The others start to wait when all have begun.
TEST(Stall, OfAJoinIsAnErrorOnAllRanks) {
  Signal over;
  std::array<Signal, 3> begun;
  Job job(3,
          [&](int rank, const Child::Tell& tell) {
            hvd::init();
            const auto number = static_cast<std::size_t>(rank);
            for (int other = 0; other < 3; ++other) begun[number].give();
            for (Signal& other : begun) other.await();
            if (rank == 0) {
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
  for (const int rank : {1, 2}) {
    const std::string said = job.rank(rank).line().value_or("nothing");
    EXPECT_NE(said.find("rank 0 (pid"), std::string::npos) << said;
    EXPECT_NE(said.find("has kept others waiting too long"), std::string::npos) << said;
  }
  over.give();
  EXPECT_NE(job.rank(0).line().value_or("nothing"), "ok");
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
