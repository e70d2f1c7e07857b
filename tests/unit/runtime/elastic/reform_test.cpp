// Members of a job lose others and go on: processes that use the C ABI, with the real Generations
// value as their launcher.
#include "agent_page.hpp"
#include "elastic_job.hpp"
#include "resources.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <hvd/agree.hpp>
#include <hvd/checkpoint.hpp>
#include <hvd/data.hpp>
#include <hvd/elastic.hpp>
#include <hvd/hvd.hpp>
#include <hvd/io.hpp>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun::test {
namespace {

using libhvd::test::Child;
using libhvd::test::text_of;

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  ::_exit(99);  // not reached
}

// Says that something failed, and ends the member.
void expect(bool right, const Child::Report& report, const std::string& text) {
  if (right) return;
  report(text);
  ::_exit(98);
}

// --- a training whose result does not depend on who takes part -----------------------------------

constexpr int kSteps = 40;
constexpr std::int64_t kSamples = 97;

struct Training {
  std::vector<double> weights = std::vector<double>(300, 1.0);
  std::int64_t step = 0;

  static double gradient(double weight, std::int64_t sample, std::size_t at) {
    return weight * static_cast<double>(sample % 7) - static_cast<double>(at % 5);
  }
  // Makes a step with the samples, whose gradients `sum` adds up over all ranks.
  template <class Sum>
  void make_step(std::span<const std::int64_t> samples, std::int64_t batch, const Sum& sum) {
    std::vector<double> gradients(weights.size());
    for (const auto sample : samples)
      for (std::size_t at = 0; at < weights.size(); ++at)
        gradients[at] += gradient(weights[at], sample, at);
    sum(std::span(gradients));
    for (std::size_t at = 0; at < weights.size(); ++at)
      weights[at] -= 0.01 * gradients[at] / static_cast<double>(batch);
    ++step;
  }
  double norm() const {
    double sum = 0;
    for (const double weight : weights) sum += weight * weight;
    return sum;
  }
};

// Returns the norm of the weights after an undisturbed training.
double undisturbed() {
  Training training;
  hvd::Shard shard({.samples = kSamples, .batch = 13, .seed = 3, .rank = 0, .size = 1});
  while (training.step < kSteps)
    training.make_step(shard.step(training.step % shard.steps()),
                       shard.batch_size(training.step % shard.steps()), [](std::span<double>) {});
  return training.norm();
}

// Trains, and calls `before_step` before each step. Reports the norm of the weights.
using BeforeStep = std::function<void(std::int64_t step)>;
void train(const Child::Report& report, const BeforeStep& before_step) {
  hvd::init();
  Training training;
  hvd::Shard shard({.samples = kSamples, .batch = 13, .seed = 3});
  hvd::elastic::State state;
  state.add("weights", training.weights).add("step", training.step);
  hvd::elastic::run(state, [&] {
    while (training.step < kSteps) {
      if (before_step) before_step(training.step);
      const auto step = training.step % shard.steps();
      training.make_step(shard.step(step), shard.batch_size(step), [](std::span<double> sum) {
        hvd::allreduce(sum, hvd::Op::sum, "gradients");
      });
      state.commit();
    }
  });
  report(std::to_string(hvd::size()) + " " + std::to_string(training.norm()));
  hvd::shutdown();
}

// Checks that these members, and no others, have finished, and nothing was wrong.
void expect_ended_well(ElasticJob& job, const std::vector<int>& members) {
  job.end();
  EXPECT_EQ(job.fault(), "");
  std::vector<int> finished;
  for (std::size_t member = 0; member < job.state().members.size(); ++member)
    if (job.state().members[member].state == Generations::Member::State::finished)
      finished.push_back(static_cast<int>(member));
  EXPECT_EQ(finished, members);
}

// Checks that these members report this size and the right result, and no others end well.
void expect_trained(ElasticJob& job, const std::vector<int>& members) {
  for (const int member : members) {
    const auto lines = job.lines(member);
    ASSERT_EQ(lines.size(), 1u) << "member " << member << ": " << (lines.empty() ? "" : lines[0]);
    const auto space = lines[0].find(' ');
    EXPECT_EQ(lines[0].substr(0, space), std::to_string(members.size()));
    EXPECT_NEAR(std::stod(lines[0].substr(space)), undisturbed(), 1e-5 * undisturbed());
  }
  expect_ended_well(job, members);
}

TEST(Reform, TheOthersTrainOnWithTheUndisturbedResult) {
  ElasticJob job(4, [](int member, const Child::Report& report) {
    train(report, [member](std::int64_t step) {
      if ((member == 2 && step == 10) || (member == 0 && step == 25)) die();
    });
  });
  expect_trained(job, {1, 3});
  EXPECT_EQ(job.state().generation, 3u);
}

TEST(Reform, TheLastMemberTrainsOnAlone) {
  ElasticJob job(3, [](int member, const Child::Report& report) {
    train(report, [member](std::int64_t step) {
      if (member < 2 && step == 10 * (member + 1)) die();
    });
  });
  expect_trained(job, {2});
}

TEST(Reform, TwoMayDieAtOnce) {
  ElasticJob job(4, [](int member, const Child::Report& report) {
    train(report, [member](std::int64_t step) {
      if (member > 1 && step == 10) die();
    });
  });
  expect_trained(job, {0, 1});
}

#ifdef HVDRUN_DIGITS
// What a process prints.
class Output {
 public:
  Output() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    lines_.reset(::fdopen(ends[0], "r"));
    writer_ = Fd(ends[1]);
  }
  // In the process: starts the program.
  void run(std::vector<const char*> words) {
    ::dup2(writer_.get(), STDOUT_FILENO);
    words.push_back(nullptr);
    ::execv(words[0], const_cast<char**>(words.data()));
    ::_exit(97);
  }
  // In the test: returns the next line that begins like this; "" at the end.
  std::string find(const std::string& begin) {
    writer_.reset();
    std::array<char, 512> line{};
    while (std::fgets(line.data(), static_cast<int>(line.size()), lines_.get()) != nullptr)
      if (std::string_view(line.data()).starts_with(begin)) return line.data();
    return {};
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> lines_;
  Fd writer_;
};

// Returns the loss of the last epoch in "epoch 20 loss 0.001 train accuracy …".
double last_loss(Output& output) {
  double loss = -1;
  for (std::string line; !(line = output.find("epoch ")).empty();)
    loss = std::stod(line.substr(line.find("loss ") + 5));
  return loss;
}

TEST(Reform, TheDigitsExampleTrainsOnWithTheUndisturbedLoss) {
  const std::vector<const char*> words{HVDRUN_DIGITS, "--epochs", "20"};
  Output alone;
  Child undisturbed([&](const Child::Report&) { alone.run(words); });
  const double expected = last_loss(alone);

  std::array<Output, 4> outputs;
  ElasticJob job(4, [&](int member, const Child::Report&) {
    outputs[static_cast<std::size_t>(member)].run(words);
  });
  outputs[0].find("epoch 2 ");
  job.kill(2);
  outputs[0].find("epoch 5 ");
  job.kill(0);
  EXPECT_NEAR(last_loss(outputs[1]), expected, 1e-5 * expected);  // it is rank 0 now
  expect_ended_well(job, {1, 3});
}
#endif

// --- a second death while the others come together
// ------------------------------------------------

struct Point {
  Moment::Kind kind;
  std::uint32_t exchange = 0;
};

class ReformPoint : public testing::TestWithParam<std::tuple<Point, std::uint32_t, std::uint32_t>> {
};

// Member 3 dies in training, then another one at the point of generation 2. Also: any member at the
// point of generation 1.
TEST_P(ReformPoint, ASecondDeathCostsNoTimeOut) {
  const auto [point, generation, victim] = GetParam();
  ElasticJob job(
      4,
      [](int member, const Child::Report& report) {
        train(report, [member](std::int64_t step) {
          if (member == 3 && step == 10) die();
        });
      },
      [point, generation, victim](const Moment& moment) {
        const bool dies = moment.kind == point.kind && moment.exchange == point.exchange &&
                          moment.generation == generation && moment.member == victim;
        return dies ? SIGKILL : 0;
      });
  std::vector<int> survivors;
  for (int member = 0; member < 3; ++member)
    if (member != static_cast<int>(victim)) survivors.push_back(member);
  expect_trained(job, survivors);
}

const auto kPoints = testing::Values(Point{Moment::Kind::came}, Point{Moment::Kind::go},
                                     Point{Moment::Kind::part, 1}, Point{Moment::Kind::parts, 1},
                                     Point{Moment::Kind::part, 2}, Point{Moment::Kind::parts, 2},
                                     Point{Moment::Kind::part, 3}, Point{Moment::Kind::parts, 3});

INSTANTIATE_TEST_SUITE_P(OfARankInTheStart, ReformPoint,
                         testing::Combine(kPoints, testing::Values(1u), testing::Values(0u, 1u)));
INSTANTIATE_TEST_SUITE_P(OfARankAfterADeath, ReformPoint,
                         testing::Combine(kPoints, testing::Values(2u), testing::Values(0u, 1u)));
INSTANTIATE_TEST_SUITE_P(BeforeItComes, ReformPoint,
                         testing::Combine(testing::Values(Point{Moment::Kind::over}),
                                          testing::Values(2u), testing::Values(0u, 1u)));

// --- deaths in the state's calls
// ------------------------------------------------------------------

// Memory of a page, which a test can make inaccessible.
class Page {
 public:
  static constexpr std::size_t kBytes = 4096;
  Page()
      : memory_(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  // Makes the next access to it the end of this process.
  void close() {
    ::signal(SIGSEGV, [](int) { ::kill(::getpid(), SIGKILL); });  // and no core file
    ::mprotect(memory_, kBytes, PROT_NONE);
  }
  std::span<std::byte> bytes() { return {static_cast<std::byte*>(memory_), kBytes}; }

 private:
  void* memory_;
};

// Three members commit different numbers of times; then member `victim` gets a state that kills it
// in `call`, as soon as that comes to the second block. Reports the values of the others.
void die_in_state_call(int member, int victim, bool in_commit, const Child::Report& report) {
  hvd::init();
  double value = 1;
  Page page;
  hvd::elastic::State state;
  state.add("value", value).add("page", page.bytes());
  state.sync();
  // Member 1 is one commit ahead.
  for (int commit = 0; commit < (member == 1 ? 3 : 2); ++commit) {
    value = 10 * (member + 1) + commit;
    state.commit();
  }
  const auto come = [&] {
    state.restore();
    hvd::elastic::reform();
  };
  if (in_commit && member == victim) {
    page.close();
    state.commit();
  }
  try {
    if (!in_commit) come();
    report("newest is " + std::to_string(hvd::elastic::newest()));
    if (member == victim) page.close();
    value = -1;  // of a step that was begun
    state.restore();
    state.sync();
    if (in_commit) throw hvd::Error(HVD_ERROR_SYSTEM, "all commit");
    report("no error");
  } catch (const hvd::Error& error) {
    if (error.status() != HVD_ERROR_PEER) report(error.what());
  }
  report("value " + std::to_string(value));
  come();
  state.sync();
  report("value " + std::to_string(value) + " of " + std::to_string(hvd::elastic::newest()));
  hvd::shutdown();
}

TEST(State, IfTheNewestRankDiesInSyncTheOthersHaveTheirOwnAndThenTheNextNewest) {
  ElasticJob job(3, [](int member, const Child::Report& report) {
    die_in_state_call(member, 1, false, report);
  });
  EXPECT_EQ(job.lines(0),
            (std::vector<std::string>{"newest is 1", "value 11.000000", "value 11.000000 of 0"}));
  EXPECT_EQ(job.lines(2),
            (std::vector<std::string>{"newest is 1", "value 31.000000", "value 11.000000 of 0"}));
}

TEST(State, IfAnotherRankDiesInSyncNothingIsLost) {
  ElasticJob job(3, [](int member, const Child::Report& report) {
    die_in_state_call(member, 2, false, report);
  });
  for (const int member : {0, 1}) {
    const auto lines = job.lines(member);
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines.back(), "value 22.000000 of 1");
  }
}

TEST(State, ARankThatDiesInCommitHarmsNoOther) {
  ElasticJob job(3, [](int member, const Child::Report& report) {
    hvd::init();
    double value = 1;
    Page page;
    hvd::elastic::State state;
    state.add("value", value).add("page", page.bytes());
    int generations = 0;
    hvd::elastic::run(state, [&] {
      ++generations;
      while (value < 10) {
        if (member == 1 && value == 5) page.close();
        value += hvd::allreduce(1, hvd::Op::max);
        state.commit();
      }
    });
    report(std::to_string(value) + " in generation " + std::to_string(hvd::elastic::generation()));
    expect(generations == 2, report, "it ran " + std::to_string(generations) + " times");
    hvd::shutdown();
  });
  for (const int member : {0, 2})
    EXPECT_EQ(job.lines(member), std::vector<std::string>{"10.000000 in generation 2"});
}

TEST(State, DifferentBlocksAreAnErrorThatLeavesRun) {
  ElasticJob job(2, [](int member, const Child::Report& report) {
    hvd::init();
    std::vector<double> values(member == 0 ? 10 : 20);
    hvd::elastic::State state;
    state.add("weights", values);
    try {
      hvd::elastic::run(state, [] {});
    } catch (const hvd::Error& error) {
      report(std::to_string(error.status()) + " " + error.what());
    }
    hvd::shutdown();
  });
  const std::string text =
      "3 hvd_state_sync: the states have different blocks: there is block \"weights\" of 80 bytes "
      "on rank 0, and block \"weights\" of 160 bytes on rank 1";
  EXPECT_EQ(job.lines(0), std::vector<std::string>{text});
  EXPECT_EQ(job.lines(1), std::vector<std::string>{text});
}

TEST(State, ResetCallbacksMakeProcessSetsAgainAlsoIfARankDiesInOne) {
  ElasticJob job(4, [](int member, const Child::Report& report) {
    hvd::init();
    std::int64_t step = 0;
    std::optional<hvd::ProcessSet> set;
    const auto make_set = [&] { set = hvd::ProcessSet({0, hvd::size() - 1}); };
    make_set();
    hvd::elastic::State state;
    state.add("step", step).on_reset([&] {
      if (member == 2) die();
      make_set();
    });
    hvd::elastic::run(state, [&] {
      while (step < 20) {
        if (member == 3 && step == 5) die();
        const bool in_set = hvd::rank() == 0 || hvd::rank() == hvd::size() - 1;
        hvd::Options options("in the set");
        options.on = *set;
        if (in_set) hvd::allreduce(1, hvd::Op::sum, options);
        hvd::barrier();
        ++step;
        state.commit();
      }
    });
    report(std::to_string(hvd::size()));
    hvd::shutdown();
  });
  for (const int member : {0, 1}) EXPECT_EQ(job.lines(member), std::vector<std::string>{"2"});
}

// --- what the functions say
// -----------------------------------------------------------------------

TEST(Reform, EachPendingCallSaysWhoWasLost) {
  ElasticJob job(4, [](int member, const Child::Report& report) {
    hvd::init();
    const hvd::ProcessSet set({0, 1, 3});
    if (member == 3) {
      hvd::barrier();
      die();
    }
    hvd_handle pending = 0;
    float one = 1;
    hvd_options options{};
    options.struct_size = sizeof options;
    options.name = "pending";
    expect(hvd_allreduce_async(&one, &one, 1, HVD_FLOAT32, HVD_SUM, &options, &pending) == HVD_OK,
           report, "no handle");
    std::string in_set = "not in it";
    hvd::barrier();
    if (member == 0) {
      options.process_set = set.id();
      in_set = text_of(hvd_allreduce(&one, &one, 1, HVD_FLOAT32, HVD_SUM, &options));
    } else if (member == 1) {
      int last = 0;
      in_set = text_of(hvd_join(&last));
    } else {
      in_set = text_of(hvd_barrier(nullptr));
    }
    const hvd_status status = hvd_wait(pending);
    report(in_set);
    report(std::to_string(status) + " " + hvd_last_error());
    report(text_of(hvd_barrier(nullptr)));
    expect(hvd_reform() == HVD_OK, report, hvd_last_error());
    report(text_of(hvd_wait(pending)));
    report(std::to_string(hvd_generation()) + " " + std::to_string(hvd_member()) + " " +
           std::to_string(hvd::rank()) + " " + std::to_string(hvd::size()));
    hvd::shutdown();
  });
  const std::string lost = "rank 3 was killed by SIGKILL";
  for (const int member : {0, 1, 2}) {
    const auto lines = job.lines(member);
    ASSERT_EQ(lines.size(), 5u) << (lines.empty() ? "" : lines.back());
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NE(lines[i].find(lost), std::string::npos) << lines[i];
    EXPECT_EQ(lines[1].substr(0, 1), "4");
    EXPECT_NE(lines[3].find("is of generation 1, which is over; this is generation 2"),
              std::string::npos)
        << lines[3];
    const auto number = std::to_string(member);
    EXPECT_EQ(lines[4], "2 " + number + " " + number + " 3");
  }
}

// Returns the lines of a file without their times.
std::string untimed(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  for (std::string line; std::getline(file, line);)
    text += line.substr(line.find_last_of(' ') + 1) + "\n";
  return text;
}

TEST(Reform, WhatAProgramHasStaysUsable) {
  const libhvd::test::TemporaryFolder folder;
  hvd::RecordWriter records(folder.file("data"));
  for (int record = 0; record < 30; ++record)
    records.write(std::string(1, static_cast<char>(record)));
  records.close();
  libhvd::AgentPage page;
  ElasticJob job(
      3,
      [&](int member, const Child::Report& report) {
        if (member == 1) ::setenv("HVD_STATUS", page.place().c_str(), 1);
        hvd::init();
        hvd::watch_signal(SIGUSR1);
        hvd::Buffer<int> shared(20'000);
        hvd::Log log(folder.file("log"));
        hvd::Checkpoints checkpoints(folder.file("checkpoints"));
        std::int64_t step = 3;
        hvd::State saved;
        saved.add("step", step);
        hvd::Reader reader(hvd::Source::tfrecord(folder.file("data")),
                           {.batch = 6, .shuffle = false});
        const auto own = [&] {  // the first sample of this rank's batch, and how many it has
          const auto batch = reader.next();
          return std::to_string(batch->indices()[0]) + "+" + std::to_string(batch->size());
        };
        hvd::progress({.step = 7});
        hvd::elastic::set_commits(5);
        log << "one" << std::endl;
        checkpoints.save(saved, 3);
        checkpoints.wait();
        report(own());
        hvd::barrier();
        if (member == 0) die();
        expect(hvd_barrier(nullptr) == HVD_ERROR_PEER, report, "no error");
        hvd::elastic::reform();

        report(std::to_string(hvd::rank()) + ": " + own());
        std::fill(shared.span().begin(), shared.span().end(), 1);
        hvd::allreduce(shared.span(), hvd::Op::sum, "shared");
        expect(shared[19'999] == 2, report, "wrong sum");
        log << "two" << std::endl;
        step = 0;
        const auto loaded = checkpoints.load(saved);
        expect(loaded && step == 3, report, "not loaded");
        checkpoints.save(saved, 4);
        checkpoints.wait();
        ::raise(SIGUSR1);
        expect(static_cast<bool>(hvd::agree_stop(1)), report, "the signal was not remembered");
        checkpoints.close();
        hvd::shutdown();
      },
      {}, {{"HVD_TIMELINE", folder.file("run.json")}});
  EXPECT_EQ(job.lines(1), (std::vector<std::string>{"2+2", "0: 6+3"}));
  EXPECT_EQ(job.lines(2), (std::vector<std::string>{"4+2", "1: 9+3"}));
  EXPECT_EQ(untimed(folder.file("log")), "one\ntwo\n");
  EXPECT_EQ(page.page()->generation, 2u);
  EXPECT_EQ(page.page()->commits, 5u);
  EXPECT_EQ(page.page()->step, 7u);
  EXPECT_EQ(page.page()->attached, 2u);
  EXPECT_EQ(page.page()->collective_active, 0u);
  std::ifstream timeline(folder.file("run.generation-2.json"));
  EXPECT_TRUE(timeline.good());
  job.end();
  EXPECT_EQ(job.fault(), "");
  EXPECT_EQ(job.left_in_memory(), std::vector<std::string>{});
}

TEST(Reform, AllMayAgreeToFormANewGeneration) {
  ElasticJob job(3, [](int member, const Child::Report& report) {
    hvd::init();
    expect(hvd::local_device() == member, report, "another device");
    hvd::elastic::reform();
    expect(hvd::local_device() == member, report, "another device");
    report(std::to_string(hvd::elastic::generation()) + " " +
           std::to_string(hvd::allreduce(1, hvd::Op::sum)));
    hvd::shutdown();
  });
  for (const int member : {0, 1, 2}) EXPECT_EQ(job.lines(member), std::vector<std::string>{"2 3"});
  job.end();
  EXPECT_EQ(job.fault(), "");
}

TEST(Reform, InitAfterShutdownWorks) {
  ElasticJob job(2, [](int, const Child::Report& report) {
    for (int session = 0; session < 3; ++session) {
      hvd::init();
      report(std::to_string(hvd::allreduce(1, hvd::Op::sum)));
      hvd::shutdown();
    }
  });
  for (const int member : {0, 1})
    EXPECT_EQ(job.lines(member), (std::vector<std::string>{"2", "2", "2"}));
  expect_ended_well(job, {0, 1});
}

TEST(Reform, AProgramThatExitsWithoutShutdownHasLeft) {
  ElasticJob job(2, [](int, const Child::Report& report) {
    hvd::init();
    hvd::barrier();
    report("done");
  });
  expect_ended_well(job, {0, 1});
  EXPECT_EQ(job.state().generation, 1u) << "no rank was lost";
}

TEST(Reform, AForkedChildUsesNoLinkAndHarmsNone) {
  ElasticJob job(2, [](int, const Child::Report& report) {
    hvd::init();
    const pid_t child = ::fork();
    if (child == 0) {
      const bool refused = hvd_reform() == HVD_ERROR_FORKED;
      std::exit(refused ? 0 : 1);  // runs the exit handlers
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    report(std::to_string(status) + " " + std::to_string(hvd::allreduce(1, hvd::Op::sum)));
    hvd::shutdown();
  });
  for (const int member : {0, 1}) EXPECT_EQ(job.lines(member), std::vector<std::string>{"0 2"});
  job.end();
  EXPECT_EQ(job.fault(), "");
}

TEST(Reform, ARankWhoseChildrenLiveOnIsLostAtOnce) {
  ElasticJob job(2, [](int member, const Child::Report& report) {
    hvd::init();
    hvd::barrier();
    if (member == 1) libhvd::test::die_and_leave_a_child(report);
    report(text_of(hvd_barrier(nullptr)));
    hvd::elastic::reform();
    report(std::to_string(hvd::size()));
    hvd::shutdown();
  });
  EXPECT_EQ(job.lines(0), (std::vector<std::string>{"barrier: rank 1 was killed by SIGKILL", "1"}));
}

TEST(Reform, SomeRanksAndMpiAreRefused) {
  ElasticJob job(1, [](int, const Child::Report& report) {
    const int rank = 0;
    hvd_init_options options{};
    options.struct_size = sizeof options;
    options.ranks = &rank;
    options.rank_count = 1;
    report(std::to_string(hvd_init_with(&options)));
    ::setenv("HVD_TRANSPORT", "mpi", 1);
    report(std::to_string(hvd_init()));
    ::unsetenv("HVD_TRANSPORT");
    const hvd_rank_list set{&rank, 1};
    options = {};
    options.struct_size = sizeof options;
    options.process_sets = &set;
    options.process_set_count = 1;
    report(std::to_string(hvd_init_with(&options)));
    report(std::to_string(hvd_elastic()));
  });
  EXPECT_EQ(job.lines(0), (std::vector<std::string>{"5", "5", "0", "1"}));
}

TEST(Reform, AnotherJobHasOneGeneration) {
  for (const char* name : {"HVD_AGENT", "HVD_MEMBER", "HVD_RANK", "RANK", "PMIX_NAMESPACE"})
    ::unsetenv(name);
  EXPECT_EQ(hvd_reform(), HVD_ERROR_UNSUPPORTED);
  EXPECT_STREQ(hvd_last_error(),
               "hvd_reform: this job ends when a rank is lost. Start it with hvdrun --min-np, and "
               "it continues with the other ranks");
  EXPECT_EQ(hvd_generation(), -HVD_ERROR_NOT_INITIALIZED);
  hvd::init();
  EXPECT_EQ(hvd_elastic(), 0);
  EXPECT_EQ(hvd_member(), 0);
  EXPECT_EQ(hvd_newest(), 0);
  int calls = 0;
  std::int64_t step = 0;
  hvd::elastic::State state;
  state.add("step", step);
  EXPECT_THROW(hvd::elastic::run(state,
                                 [&] {
                                   ++calls;
                                   throw hvd::Error(HVD_ERROR_PEER, "rank 1 has died");
                                 }),
               hvd::Error);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(hvd::elastic::run(state, [] { return 7; }), 7);
  hvd::shutdown();
}

TEST(State, RefusesWhatItCannotCopy) {
  hvd_state* state = nullptr;
  int value = 3;
  ASSERT_EQ(hvd_state_create(&state), HVD_OK);
  EXPECT_EQ(hvd_state_restore(state), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_state_add(state, "", &value, sizeof value, HVD_HOST), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_state_add(state, "a", nullptr, 1, HVD_HOST), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_state_add(state, "a", &value, sizeof value, HVD_CUDA), HVD_ERROR_UNSUPPORTED);
  EXPECT_EQ(hvd_state_add(state, "a", &value, sizeof value, HVD_HOST), HVD_OK);
  EXPECT_EQ(hvd_state_add(state, "a", &value, sizeof value, HVD_HOST), HVD_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(hvd_state_commit(state), HVD_OK);
  EXPECT_EQ(hvd_state_add(state, "b", &value, sizeof value, HVD_HOST), HVD_ERROR_INVALID_ARGUMENT);
  value = 4;
  EXPECT_EQ(hvd_state_restore(state), HVD_OK);
  EXPECT_EQ(value, 3);
  EXPECT_EQ(hvd_state_sync(state), HVD_ERROR_NOT_INITIALIZED);
  hvd_state_free(state);
  hvd_state_free(nullptr);

  std::vector<int> values(3);
  hvd::elastic::State of_vector;
  of_vector.add("values", values);
  values.resize(10'000);
  EXPECT_THROW(of_vector.commit(), hvd::Error);
}

TEST(Reform, AThousandGenerationsLeakNothing) {
  ElasticJob job(2, [](int, const Child::Report& report) {
    hvd::init();
    std::vector<double> weights(1000);
    hvd::elastic::State state;
    state.add("weights", weights);
    const auto use = [&] {
      state.sync();
      hvd::allreduce_async(std::span(weights), hvd::Op::sum, "weights").wait();
      state.commit();
      hvd::elastic::reform();
    };
    for (int generation = 0; generation < 3; ++generation) use();  // fills the allocator's caches
    const libhvd::test::Resources before;
    for (int generation = 0; generation < 1000; ++generation) use();
    report(libhvd::test::compare(before, libhvd::test::Resources()));
    report(std::to_string(hvd::elastic::generation()));
    hvd::shutdown();
  });
  for (const int member : {0, 1})
    EXPECT_EQ(job.lines(member), (std::vector<std::string>{"ok", "1004"}));
  job.end();
  EXPECT_EQ(job.left_in_memory(), std::vector<std::string>{});
}

}  // namespace
}  // namespace hvdrun::test
