// Stalls: a rank that others wait for too long is named in a warning, then in an error.
#include "submit.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <future>
#include <mutex>

#include <hvd/hvd.hpp>

namespace libhvd::test {
namespace {

TEST(DescribeStall, GroupsCallsByTheRanksTheyWaitFor) {
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

// Collects the warnings of all ranks.
struct Warnings {
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

  // Waits for a line with this text and returns it.
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

EngineSettings settings_with_limits(int warning_ms, int error_ms = 0) {
  EngineSettings settings;
  settings.stall_warning = std::chrono::milliseconds(warning_ms);
  settings.stall_error = std::chrono::milliseconds(error_ms);
  return settings;
}

EngineSettings settings_without_check() {
  EngineSettings settings;
  settings.stall_check = false;
  return settings;
}

// The late rank has submitted nothing, or another tensor.
TEST(Stall, OneRankNamesTheRankThatAllWaitFor) {
  for (const bool other_first : {false, true}) {
    Warnings warnings;
    run_ranks(3, [&](Communicator& communicator) {
      const auto engine =
          Engine::start(communicator.second(),
                        {.settings = settings_with_limits(30), .listener = warnings.listener()});
      ASSERT_TRUE(engine.ok());
      const Rank rank{**engine, communicator, communicator.rank(), 3};
      std::vector<float> values(4, 1), first(4, 1), second(4, 1);
      const bool late = rank.rank == 1;
      std::int64_t side = 0;
      if (other_first) side = submit(rank, sum_of(late ? "early" : "other", first));
      if (late) warnings.await("allreduce \"x\"");
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
    for (const std::string& line : warnings.lines)
      EXPECT_NE(line.find(" s for rank"), std::string::npos) << line;
  }
}

// Runs three ranks, of which rank 0 is late. Only rank 1 watches for stalls.
void run_with_rank_0_late(Warnings& warnings, const std::function<void(const Rank&)>& wait) {
  run_ranks(3, [&](Communicator& communicator) {
    const bool watches = communicator.rank() == 1;
    const auto engine = Engine::start(
        communicator.second(),
        {.settings = watches ? settings_with_limits(20, 40) : settings_without_check(),
         .listener = warnings.listener()});
    ASSERT_TRUE(engine.ok());
    const Rank rank{**engine, communicator, communicator.rank(), 3};
    if (rank.rank == 0) {
      warnings.await("");
      while (communicator.barrier({}).ok()) {
      }
    } else {
      wait(rank);
    }
  });
}

TEST(Stall, FailsOnEveryRankAfterTheSecondLimit) {
  Warnings warnings;
  std::promise<void> rank_2_waits;
  run_with_rank_0_late(warnings, [&](const Rank& rank) {
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

// The ranks that wait have submitted the tensor and then joined; they wait nevertheless.
TEST(Stall, IsReportedForATensorSubmittedBeforeJoining) {
  Warnings warnings;
  std::promise<void> rank_2_waits;
  run_with_rank_0_late(warnings, [&](const Rank& rank) {
    std::vector<float> values(4, 1);
    if (rank.rank == 1) rank_2_waits.get_future().wait();
    const auto handle = submit(rank, sum_of("x", values));
    rank.engine.join();
    if (rank.rank == 2) rank_2_waits.set_value();
    const std::string message = message_of(rank.engine.wait(handle));
    EXPECT_NE(message.find("has kept others waiting too long"), std::string::npos) << message;
  });
  // Rank 2 is named too if it has not proposed the tensor yet.
  const std::string line = warnings.await("allreduce \"x\" has waited ");
  EXPECT_TRUE(line.find(" s for rank 0") != line.npos || line.find(" s for ranks 0,2") != line.npos)
      << line;
}

// Ranks 1 and 2 join and wait for rank 0, which makes no call. They start to wait when all ranks
// have begun, so that rank 0 is the only late one.
TEST(Stall, OfAJoinFailsOnEveryRank) {
  Signal over;
  std::array<Signal, 3> begun;
  Job job(3,
          [&](int rank, const Child::Report& report) {
            hvd::init();
            const auto number = static_cast<std::size_t>(rank);
            for (int other = 0; other < 3; ++other) begun[number].notify();
            for (Signal& other : begun) other.await();
            if (rank == 0) {
              over.await();
              float value = 1;
              report(hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, nullptr) == HVD_OK
                         ? "ok"
                         : hvd_last_error());
              return;
            }
            report(hvd_join(nullptr) == HVD_OK ? "ok" : hvd_last_error());
          },
          {{"HVD_STALL_CHECK_TIME_SECONDS", "0.05"}, {"HVD_STALL_SHUTDOWN_TIME_SECONDS", "0.1"}});
  for (const int rank : {1, 2}) {
    const std::string line = job.rank(rank).line().value_or("nothing");
    EXPECT_NE(line.find("rank 0 (pid"), std::string::npos) << line;
    EXPECT_NE(line.find("has kept others waiting too long"), std::string::npos) << line;
  }
  over.notify();
  EXPECT_NE(job.rank(0).line().value_or("nothing"), "ok");
}

TEST(Stall, IsNotReportedWhenTheCheckIsDisabled) {
  Warnings warnings;
  EngineSettings settings = settings_with_limits(1, 2);
  settings.stall_check = false;
  const StallWatch watch(settings, warnings.listener());
  EXPECT_FALSE(watch.due(1'000'000'000'000));
  EXPECT_FALSE(watch.over(1'000'000'000'000));
}

}  // namespace
}  // namespace libhvd::test
