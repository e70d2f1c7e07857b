// Autotune: which fusion limits the search chooses, and that collectives give right results during
// it.
#include "engine/autotune.hpp"

#include "submit.hpp"

#include <cmath>
#include <fstream>
#include <sstream>

#include <hvd/hvd.hpp>

namespace libhvd::test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint8_t kFast = 3;

// Returns how many ms a step takes with a candidate.
using StepMs = std::function<double(std::uint8_t candidate, int step)>;

// Gives a tuner the steps of a program, with times that are computed.
class Program {
 public:
  explicit Program(StepMs step_ms) : step_ms_(std::move(step_ms)) {}

  void step(std::uint64_t first_name = 1) {
    const auto ns = static_cast<std::uint64_t>(step_ms_(tuner_.choice(), steps_++) * kMs);
    for (std::uint64_t name = first_name; name < first_name + 10; ++name)
      tuner_.completed(name, 1000, now_ns_ += ns / 10);
  }
  void run(int steps) {
    while (steps-- > 0 && !tuner_.over()) step();
  }
  Tuner& tuner() { return tuner_; }
  std::uint64_t now_ns() const { return now_ns_; }
  const std::vector<std::uint8_t>& samples() const { return samples_; }

 private:
  StepMs step_ms_;
  std::vector<std::uint8_t> samples_;
  Tuner tuner_{[this](std::uint8_t candidate, double) { samples_.push_back(candidate); }};
  std::uint64_t now_ns_ = 5;
  int steps_ = 0;
};

std::uint8_t chosen(StepMs step_ms) {
  Program program(std::move(step_ms));
  program.run(10'000);
  EXPECT_TRUE(program.tuner().over());
  EXPECT_EQ(program.samples().back(), program.tuner().choice());
  return program.tuner().choice();
}

TEST(Tuner, TakesTheCandidateWithTheShortestSteps) {
  EXPECT_EQ(chosen([](auto candidate, int) { return candidate == kFast ? 8 : 10; }), kFast);
  EXPECT_EQ(chosen([](auto candidate, int) { return 10.0 - candidate / 2.0; }),
            candidate_count() - 1);
}

TEST(Tuner, KeepsTheDefaultLimitsUnlessOthersAreMeasurablyFaster) {
  EXPECT_EQ(chosen([](auto, int) { return 10; }), 0);
  EXPECT_EQ(chosen([](auto candidate, int) { return candidate == 0 ? 8 : 10; }), 0);
  EXPECT_EQ(chosen([](auto candidate, int) { return candidate == kFast ? 9.8 : 10; }), 0);
}

// Candidate kFast wins at first, and loses when it is compared again.
TEST(Tuner, ReturnsToTheDefaultLimitsIfTheSecondComparisonFails) {
  EXPECT_EQ(chosen([](auto candidate, int step) {
              if (candidate == 0) return 10;
              return candidate == kFast && step < 131 ? 8 : 11;
            }),
            0);
}

// A quarter of the steps takes three times as long, by chance. The tuner may then keep the default
// limits, but must not choose a candidate that is not faster.
TEST(Tuner, IsNotMisledByNoise) {
  int found = 0;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::uint32_t state = seed * 2'654'435'761u;
    Program program([&](auto candidate, int) {
      state = state * 1'664'525u + 1'013'904'223u;
      const double base = candidate == kFast ? 7.0 : 10.0;
      return state >> 30 == 0 ? 3 * base : base;
    });
    program.run(10'000);
    EXPECT_TRUE(program.tuner().choice() == kFast || program.tuner().choice() == 0) << seed;
    found += program.tuner().choice() == kFast;
  }
  EXPECT_GE(found, 15);
}

TEST(Tuner, EndsWithinItsTimeLimit) {
  constexpr std::uint64_t kMost = 12'000 * kMs;
  for (const double ms : {0.01, 1.0, 20.0, 300.0, 3000.0}) {
    Program program([&](auto candidate, int) { return candidate == kFast ? ms / 2 : ms; });
    while (!program.tuner().over() && program.now_ns() < 60'000 * kMs) program.step();
    EXPECT_TRUE(program.tuner().over()) << ms;
    EXPECT_LE(program.now_ns(), kMost + static_cast<std::uint64_t>(10 * ms * kMs));
    EXPECT_EQ(program.tuner().choice(), ms <= 20 ? kFast : 0) << ms;
  }
}

// The program makes no more steps while another candidate is tried.
TEST(Tuner, ReturnsToTheDefaultLimitsWhenTheStepsCease) {
  Program program([](auto, int) { return 10; });
  while (program.tuner().choice() == 0) program.step();
  program.tuner().end_in_time(program.now_ns());
  EXPECT_NE(program.tuner().choice(), 0);
  program.tuner().end_in_time(program.now_ns() + 11'000 * kMs);
  EXPECT_EQ(program.tuner().choice(), 0);
  EXPECT_TRUE(program.tuner().over());
}

// Every fourth step has other names, like a validation step, and takes less time.
TEST(Tuner, ComparesOnlyStepsWithTheSameNames) {
  Program program([](auto candidate, int step) {
    if (step % 4 == 0) return candidate == 1 ? 0.1 : 1.0;
    return candidate == kFast ? 8.0 : 10.0;
  });
  for (int step = 0; step < 10'000 && !program.tuner().over(); ++step)
    program.step(step % 4 == 0 ? 1000 : 1);
  EXPECT_TRUE(program.tuner().over());
  EXPECT_EQ(program.tuner().choice(), kFast);
}

TEST(Tuner, RestartsWhenTheProgramHasOtherTensors) {
  Program program([](auto candidate, int) { return candidate == 2 ? 8 : 10; });
  for (int step = 0; step < 40; ++step) program.step();
  EXPECT_FALSE(program.tuner().over());
  for (int step = 0; step < 10'000 && !program.tuner().over(); ++step) program.step(1000);
  EXPECT_EQ(program.tuner().choice(), 2);
}

TEST(Tuner, IgnoresNamesThatNeverRecur) {
  Program program([](auto, int) { return 10; });
  for (int step = 0; step < 100; ++step) program.step(1 + 100 * static_cast<std::uint64_t>(step));
  EXPECT_EQ(program.tuner().choice(), 0);
  EXPECT_TRUE(program.samples().empty());
}

constexpr std::size_t kGradients = 24;

// Makes a training step: sums of tensors of 4 bytes to 128 KiB, in an order that differs between
// ranks.
void train(const Rank& rank, int step, float wanted) {
  std::vector<std::vector<float>> tensors;
  for (std::size_t i = 0; i < kGradients; ++i)
    tensors.emplace_back(std::size_t{1} << i % 16, static_cast<float>(rank.rank + 1));
  std::vector<std::int64_t> handles;
  for (std::size_t i = 0; i < kGradients; ++i) {
    const std::size_t own = (i * 5 + static_cast<std::size_t>(rank.rank * 7 + step)) % kGradients;
    handles.push_back(submit(rank, sum_of("gradient." + std::to_string(own), tensors[own])));
  }
  for (const std::int64_t handle : handles) ASSERT_EQ(message_of(rank.engine.wait(handle)), "");
  for (const auto& tensor : tensors) ASSERT_EQ(tensor, std::vector<float>(tensor.size(), wanted));
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Runs engines as run_engines() does, but rank 0 autotunes and writes a log.
void run_tuned(int size, const std::string& log, const std::function<void(const Rank&)>& body) {
  run_ranks_everywhere(size, [&](Communicator& communicator) {
    EngineOptions options;
    if (communicator.rank() == 0) {
      options.settings.autotune = true;
      auto file = AutotuneLog::open(log);
      ASSERT_TRUE(file.ok());
      options.autotune_log = std::move(*file);
    }
    const auto engine = Engine::start(communicator.second(), std::move(options));
    ASSERT_TRUE(engine.ok());
    body({**engine, communicator, communicator.rank(), communicator.size()});
    ASSERT_TRUE(communicator.barrier({}).ok());
    (*engine)->stop();
  });
}

// All ranks leave after the same step, when rank 0 has seen enough lines of its log.
TEST(Autotune, SumsAreRightDuringTheSearch) {
  for (const int size : {2, 3}) {
    const TemporaryFolder folder;
    const std::string log = folder.file("log.csv");
    run_tuned(size, log, [&](const Rank& rank) {
      const auto wanted = static_cast<float>(size * (size + 1) / 2);
      std::vector<float> searched(1);
      for (int step = 0; searched[0] == 0; ++step) {
        for (int i = 0; i < 50; ++i) train(rank, step, wanted);
        // The search writes up to 40 lines; the test need not see all of them.
        searched[0] = rank.rank == 0 && lines_of(log).size() > 8 ? 1 : 0;
        ASSERT_EQ(message_of(rank.engine.wait(submit(rank, sum_of("searched", searched)))), "");
      }
    });
    const auto lines = lines_of(log);
    ASSERT_GT(lines.size(), 8u);
    EXPECT_EQ(lines[0],
              "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,"
              "cycle_time_ms,tensor_fusion_threshold,score,largest_fused_bytes");
    EXPECT_EQ(lines[1].substr(0, 17), "0,0,0,1,0,0.0625,");
    EXPECT_EQ(lines[1].substr(lines[1].rfind(',')), ",4096");
    EXPECT_EQ(lines[2].substr(0, 12), "0,0,0,1,0,0,");
  }
}

// Ranks join during the search, and then begin another epoch.
TEST(Autotune, RanksMayJoinDuringTheSearch) {
  const TemporaryFolder folder;
  run_tuned(3, folder.file("log.csv"), [](const Rank& rank) {
    for (int epoch = 0; epoch < 8; ++epoch) {
      const int last = (rank.rank + epoch) % 3;
      for (int step = 0; step < 20; ++step) train(rank, step, 6);
      for (int step = 0; step < last; ++step) {
        float wanted = 0;
        for (int other = 0; other < 3; ++other)
          if (step < (other + epoch) % 3) wanted += static_cast<float>(other + 1);
        train(rank, step, wanted);
      }
      rank.engine.join();
      ASSERT_EQ(message_of(rank.engine.wait_joined()), "");
    }
  });
}

// Trains until the rank is killed or another one fails.
void train_until_a_failure(int rank, std::int32_t set, const Child::Report& report) {
  std::vector<std::vector<float>> tensors;
  for (std::size_t i = 0; i < kGradients; ++i) tensors.emplace_back(std::size_t{1} << i % 14);
  for (int step = 0;; ++step) {
    std::vector<hvd::Future<>> sums;
    for (std::size_t i = 0; i < kGradients; ++i) {
      std::fill(tensors[i].begin(), tensors[i].end(), 1.0f);
      sums.push_back(hvd::allreduce_async(std::span(tensors[i]), hvd::Op::sum,
                                          "gradient." + std::to_string(i)));
    }
    int value = 1;
    hvd_options options{};
    options.struct_size = sizeof options;
    options.name = "within";
    options.process_set = set;
    if (rank < 2)
      hvd::detail::check(hvd_allreduce(&value, &value, 1, HVD_INT32, HVD_SUM, &options));
    for (auto& sum : sums) sum.wait();
    if (rank < 2 && value != 2) return report("wrong sum in the set");
    for (const auto& tensor : tensors)
      if (tensor != std::vector<float>(tensor.size(), 3.0f)) return report("wrong sum");
    if (step == 100) report("trains");
  }
}

// A rank dies during the search, while a process set is used too.
TEST(Autotune, ADeadRankFailsTheOthersCalls) {
  const TemporaryFolder folder;
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 0}, std::vector<int>{0, 1, 0}}) {
    Job job(hosts,
            [](int rank, const Child::Report& report) {
              hvd::init();
              const std::int32_t numbers[] = {0, 1};
              std::int32_t set = -1;
              hvd::detail::check(hvd_add_process_set(numbers, 2, &set));
              try {
                train_until_a_failure(rank, set, report);
              } catch (const std::exception& error) {
                report(error.what());
              }
            },
            {{"HVD_AUTOTUNE", "1"}, {"HVD_AUTOTUNE_LOG", folder.file("log.csv")}});
    for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(job.rank(rank).line(), "trains");
    job.rank(2).kill();
    // One rank may fail first and end; then the other may name it, because it waits for it in the
    // set.
    int named = 0;
    for (int rank = 0; rank < 2; ++rank) {
      const auto line = job.rank(rank).line();
      ASSERT_TRUE(line);
      EXPECT_NE(line->find("has died"), std::string::npos) << *line;
      named += line->find("rank 2") != std::string::npos;
    }
    EXPECT_GE(named, 1);
    EXPECT_GT(lines_of(folder.file("log.csv")).size(), 1u);
  }
}

}  // namespace
}  // namespace libhvd::test
