// Runs the supervisor (job, attempt, verdict, restarts) in a simulated world (simulated_job.hpp),
// and compares the report of the job with what the ranks really did. The supervisor is the real
// one.
#include "base/system.hpp"
#include "job/requeue.hpp"
#include "job/restart.hpp"
#include "report/report_text.hpp"
#include "seeds.hpp"
#include "simulated_job.hpp"

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

using simulated::AttemptTruth;
using simulated::Chances;
using simulated::ElasticJob;
using simulated::Millis;
using simulated::Rank;
using simulated::World;

// --- one history, and the checks of its report ---------------------------------------------------

JobContext context() {
  JobContext context;
  context.environment = {{"SLURM_JOB_ID", "7"}};
  return context;
}

struct History {
  JobSpec spec;
  Plan plan;
};

void make_elastic(World& world, JobSpec& spec) {
  ElasticJob job;
  job.uses_hvd = world.chance(0.9);
  job.reforms = world.chance(0.8);
  job.least = static_cast<std::size_t>(world.between(1, *spec.ranks).count());
  job.reset_timeout = world.between(1000, 130000);
  spec.pmix = PmixMode::off;
  spec.elastic.min_ranks = static_cast<int>(job.least);
  spec.elastic.reset_timeout = job.reset_timeout;
  if (world.chance(0.5)) {
    spec.elastic.replaces = world.chance(0.8);
    spec.elastic.spares = static_cast<int>(world.between(0, 2).count());
    spec.elastic.elastic_timeout = world.between(1000, 100000);
    job.grows = spec.elastic.replaces || spec.elastic.spares > 0;
  }
  world.elastic = job;
}

History draw(World& world, std::size_t hosts, std::size_t ranks) {
  History history;
  auto& spec = history.spec;
  spec.ranks = static_cast<int>(ranks);
  spec.command = {"./train"};
  spec.program = "/tmp/train";
  spec.working_directory = "/tmp";
  spec.bind_to = BindTo::none;
  // With PMIx, an agent leaves only when the ranks of every host have ended.
  spec.pmix = world.chance(0.5) ? PmixMode::automatic : PmixMode::off;
  spec.oversubscribe = true;
  spec.input.to = InputSpec::To::none;
  spec.max_restarts = static_cast<int>(world.between(0, 2).count());
  spec.max_requeues = static_cast<int>(world.between(0, 1).count());
  spec.stop.grace = world.between(0, 3000);
  if (world.chance(0.1)) spec.stop.exit_timeout = world.between(1, 3000);
  if (world.chance(world.chances.is_elastic)) make_elastic(world, spec);
  for (std::size_t i = 0; i < hosts; ++i) {
    Host host;
    host.name = host.address = fmt::format("n{}", i + 1);
    host.is_this_machine = i == 0;
    host.slots = static_cast<int>(ranks / hosts + 1);
    host.slots_fixed = true;
    host.inventory.emplace();
    host.inventory->cores.push_back({0, 0, {0}});
    history.plan.allocation.hosts.push_back(host);
  }
  return history;
}

// Drops signals that arrived at the very end and were never read.
void forget_signals() {
  sigset_t all;
  sigemptyset(&all);
  for (const int signal : job_signals()) sigaddset(&all, signal);
  const timespec none{};
  while (::sigtimedwait(&all, nullptr, &none) > 0) {
  }
}

int signal_of(int code) {
  return code - kExitSignalBase;
}

void check_end(const World& world, const JobSpec& spec, const Report& report) {
  const AttemptTruth& last = world.attempts.back();
  const bool says_succeeded = report_lines(report).front().find("succeeded") != std::string::npos;
  EXPECT_EQ(says_succeeded, report.exit_code == 0);

  // A job that had to stop early is not complete.
  const bool had_to_stop = last.had_to_stop();
  if (report.stopped_early) {
    EXPECT_TRUE(had_to_stop && last.ranks_succeeded());
    EXPECT_EQ(report.exit_code, kExitTimeout);
    const auto requeue = plan_requeue(spec, report, context().environment);
    EXPECT_TRUE(!requeue.job.empty() || requeue.exit_code != 0);
  }

  // Exit code 0 means that every rank succeeded and none had to stop.
  if (report.exit_code == 0) {
    EXPECT_TRUE(last.ranks_succeeded() && !had_to_stop);
    EXPECT_FALSE(report.first_failure);
    EXPECT_EQ(report.reason, "");
  } else {
    EXPECT_TRUE(report.first_failure || !report.reason.empty()) << "the report gives no reason";
  }
  if (last.ranks_succeeded() && !last.disturbed && !world.interrupted) {
    EXPECT_EQ(report.exit_code, had_to_stop ? kExitTimeout : 0) << report.reason;
  }

  // The rank that is named as the first failure failed by itself.
  if (report.first_failure) {
    const auto& rank = last.ranks[static_cast<std::size_t>(*report.first_failure)];
    EXPECT_TRUE(rank.failed_by_itself() || (rank.lost_a_peer && (last.one_ended_without_leaving ||
                                                                 last.one_came_after_leaving)))
        << "rank " << *report.first_failure;
  }
  bool any_failed = false;
  for (std::size_t i = 0; i < last.ranks.size(); ++i)
    any_failed = any_failed || (last.ranks[i].failed_by_itself() && !last.never_joined(i));
  if (!last.disturbed && !world.interrupted && any_failed && !spec.stop.exit_timeout &&
      !(world.elastic && (last.members_ended || last.one_wiring_failed || report.exit_code == 0 ||
                          report.exit_code == kExitTimeout))) {
    EXPECT_TRUE(report.first_failure) << report.reason;
  }

  // The report has every rank, and each is reported as it ended.
  ASSERT_EQ(report.ranks.size(), last.ranks.size());
  for (std::size_t i = 0; i < last.ranks.size(); ++i) {
    const auto& reported = report.ranks[i];
    const auto& truth = last.ranks[i];
    if (!reported.exited) {
      EXPECT_TRUE(reported.stopped_by_us) << i;
      EXPECT_TRUE(report.exit_code != 0 || !last.decides(i)) << i;
      continue;
    }
    EXPECT_FALSE(truth.alive) << i;
    EXPECT_EQ(reported.stopped_by_us, truth.signalled) << i;
    if (WIFSIGNALED(truth.wait_status)) {
      EXPECT_EQ(reported.signal, WTERMSIG(truth.wait_status)) << i;
    } else {
      EXPECT_EQ(reported.exit_code, WEXITSTATUS(truth.wait_status)) << i;
    }
  }

  // A job whose rank failed was restarted as often as allowed, and never after a success.
  ASSERT_EQ(report.attempts.size(), world.attempts.size());
  EXPECT_LE(world.attempts.size(), static_cast<std::size_t>(spec.max_restarts) + 1);
  for (std::size_t i = 0; i + 1 < report.attempts.size(); ++i)
    EXPECT_NE(report.attempts[i].exit_code, 0);
  if (report.first_failure && report.not_restarted.empty()) {
    EXPECT_EQ(world.attempts.size(), static_cast<std::size_t>(spec.max_restarts) + 1);
  }

  // The next attempt uses every host that can be reached, unless it exceeded --start-timeout.
  for (std::size_t i = 0; i + 1 < world.attempts.size(); ++i)
    for (const auto& host : world.attempts[i].hosts)
      EXPECT_TRUE(world.attempts[i + 1].hosts.contains(host) ||
                  world.attempts[i].unreachable.contains(host) ||
                  report.attempts[i].exit_code == kExitTimeout)
          << host << " takes no part in attempt " << i + 1;

  // After an interrupt and no earlier failure, the exit code is that of the signal.
  if (world.interrupted && !last.disturbed && !any_failed && report.exit_code != 0 &&
      !last.members_ended && !last.one_wiring_failed && !report.stopped_early &&
      !spec.stop.exit_timeout && world.attempts.size() == 1) {
    const int signal = signal_of(report.exit_code);
    EXPECT_TRUE(signal == SIGINT || signal == SIGTERM || signal == SIGHUP) << report.exit_code;
  }

  // After hvdrun has returned, only agents that it cannot reach are alive.
  for (const auto& agent : world.agents) EXPECT_TRUE(!agent->alive || agent->cut) << agent->host;
  const auto time = std::chrono::duration<double>(world.now().time_since_epoch()).count();
  EXPECT_LT(time, world.elastic ? 10000.0 : 2500.0) << "it took too long";
}

// --- elastic jobs --------------------------------------------------------------------------------

// The last generation that has had the rank; -1: none.
std::ptrdiff_t last_generation_of(const AttemptTruth& truth, std::size_t rank) {
  auto at = static_cast<std::ptrdiff_t>(truth.generations.size()) - 1;
  for (; at >= 0; --at) {
    const auto& members = truth.generations[static_cast<std::size_t>(at)].members;
    if (std::find(members.begin(), members.end(), rank) != members.end()) break;
  }
  return at;
}

std::size_t count_committed(const AttemptTruth& truth, std::size_t generation) {
  const auto& its = truth.generations[generation];
  return static_cast<std::size_t>(std::ranges::count_if(its.members, [&](std::uint32_t number) {
    const auto& commits = truth.ranks[number].member.commits_in;
    const auto found = commits.find(its.number);
    return found != commits.end() && found->second > its.most_commits;
  }));
}

// Returns whether all members of a generation after this one have surely committed their state.
bool was_repaired(const AttemptTruth& truth, std::ptrdiff_t generation) {
  for (auto next = static_cast<std::size_t>(generation + 1); next < truth.generations.size();
       ++next)
    if (count_committed(truth, next) == truth.generations[next].members.size()) return true;
  return false;
}

// Returns whether a member of a generation between these has committed its state.
bool may_be_repaired(const AttemptTruth& truth, std::ptrdiff_t from, std::ptrdiff_t to) {
  for (auto next = from + 1; next <= to; ++next)
    if (count_committed(truth, static_cast<std::size_t>(next)) > 0) return true;
  return false;
}

// A loss that was repaired is not to blame, and one that was not is to blame before a later one.
void check_blamed_member(const AttemptTruth& truth, const Report& report) {
  if (!report.first_failure) return;
  const auto blamed = static_cast<std::size_t>(*report.first_failure);
  if (truth.ranks[blamed].member.state == simulated::Member::State::left) return;
  const auto its = last_generation_of(truth, blamed);
  if (truth.disturbed) return;  // an agent may not have reported how often its ranks have committed
  EXPECT_FALSE(was_repaired(truth, its)) << "rank " << blamed;
  for (std::size_t other = 0; other < truth.ranks.size(); ++other) {
    const auto generation = last_generation_of(truth, other);
    if (generation >= its || !truth.ranks[other].failed_by_itself() || truth.never_joined(other) ||
        truth.ranks[other].member.state == simulated::Member::State::left)
      continue;
    EXPECT_TRUE(may_be_repaired(truth, generation, its))
        << "rank " << other << " failed before rank " << blamed;
  }
}

void check_generations(const AttemptTruth& truth, const GenerationsReport& report) {
  ASSERT_EQ(report.generations.size(), truth.generations.size());
  std::set<std::size_t> seen;
  std::set<std::size_t> lost;
  for (const auto& loss : report.lost_at_start) EXPECT_TRUE(lost.insert(loss.member).second);
  for (std::size_t i = 0; i < report.generations.size(); ++i) {
    const auto& reported = report.generations[i];
    EXPECT_EQ(reported.number, truth.generations[i].number);
    EXPECT_TRUE(std::ranges::equal(reported.members, truth.generations[i].members));
    for (const auto member : reported.members) {
      const bool is_new = seen.insert(member).second && (i > 0 || truth.ranks[member].is_later);
      EXPECT_EQ(std::ranges::count(reported.joined, member), is_new ? 1 : 0) << member;
    }
    EXPECT_GE(reported.seconds, 0);
    EXPECT_GE(reported.pause_seconds, 0);
    for (const auto member : reported.members) EXPECT_FALSE(lost.contains(member)) << member;
    for (const auto& loss : reported.lost) {
      EXPECT_TRUE(lost.insert(loss.member).second) << loss.member << " is lost twice";
      EXPECT_NE(std::ranges::find(reported.members, loss.member), reported.members.end());
      EXPECT_FALSE(loss.text.empty());
    }
    if (i == 0) continue;
    for (const auto member : report.generations[i - 1].members) {
      const auto& rank = truth.ranks[member];
      EXPECT_TRUE(lost.contains(member) || !rank.alive ||
                  std::ranges::find(reported.members, member) != reported.members.end() ||
                  rank.member.has_left)
          << member << " was left out";
    }
  }
}

// If only hosts are lost, the ranks of the others are not ended, as long as they are enough.
void check_that_others_continue(const World& world, const JobSpec& spec, const Report& report) {
  const AttemptTruth& last = world.attempts.back();
  if (!world.chances.only_hosts_are_lost || !world.elastic->reforms || !world.elastic->uses_hvd ||
      world.interrupted || spec.stop.exit_timeout || last.members_ended ||
      last.one_was_lost_before_launch || report.exit_code == kExitTimeout)
    return;
  // If all of the last generation are lost, the job ends. Others may have left before.
  const auto is_lost = [&](std::uint32_t member) {
    return last.lost_hosts.contains(report.ranks[member].host);
  };
  if (!last.generations.empty() && std::ranges::all_of(last.generations.back().members, is_lost))
    return;
  std::size_t survivors = 0;
  for (std::size_t i = 0; i < last.ranks.size(); ++i)
    if (!last.lost_hosts.contains(report.ranks[i].host) && !last.never_joined(i)) ++survivors;
  if (survivors < world.elastic->least) return;
  for (std::size_t i = 0; i < last.ranks.size(); ++i)
    if (!last.lost_hosts.contains(report.ranks[i].host) && !last.never_joined(i)) {
      EXPECT_TRUE(last.ranks[i].started && !last.ranks[i].signalled)
          << "rank " << i << " was stopped because of a lost host";
    }
}

void check_elastic_end(const World& world, const JobSpec& spec, const Report& report) {
  const AttemptTruth& last = world.attempts.back();
  const bool were_placed = std::ranges::any_of(last.ranks, &Rank::started);
  if (were_placed || !world.elastic) {
    EXPECT_EQ(report.generations.has_value(), world.elastic.has_value());
  }
  if (!world.elastic || !report.generations) return;
  check_generations(last, *report.generations);
  check_blamed_member(last, report);
  check_that_others_continue(world, spec, report);
}

void run_history(std::uint64_t seed, const Chances& chances, bool verbose) {
  std::mt19937_64 random(seed);
  const std::size_t hosts = 1 + random() % 4;
  const std::size_t ranks = hosts + random() % 4;
  World world(random(), chances, ranks, verbose);
  History history = draw(world, hosts, ranks);
  ASSERT_TRUE(place_ranks(history.spec, history.plan));
  ASSERT_TRUE(is_final(history.plan.placement));
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Simulation simulation;
  simulation.time = &world;
  simulation.make_agents = world.make_agents();
  simulation.descriptors = {nowhere.get(), nowhere.get()};
  const auto report = run_job(history.spec, history.plan, context(), &simulation);
  forget_signals();
  ASSERT_TRUE(report) << report.error().message;
  world.say("exit code {}, first_failure {}, reason \"{}\"", report->exit_code,
            report->first_failure.value_or(-1), report->reason);
  check_end(world, history.spec, *report);
  check_elastic_end(world, history.spec, *report);
}

class Supervisor : public testing::Test {
 protected:
  Supervisor() : before_(block_signals(job_signals())) {}
  ~Supervisor() override {
    forget_signals();
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  // Runs histories. Repeats one that fails and prints each of its steps.
  static void run_many(std::uint64_t first, int count, const Chances& chances = {}) {
    for (int i = 0; i < count; ++i) {
      const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
      run(seed, chances, false);
      if (!HasFailure()) continue;
      fmt::print("the history of seed {}, once more:\n", seed);
      run(seed, chances, true);
      FAIL() << "seed " << seed;
    }
  }

 private:
  static void run(std::uint64_t seed, const Chances& chances, bool verbose) {
    try {
      run_history(seed, chances, verbose);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }

  sigset_t before_;
};

int histories() {
  if (!seeds::are_new()) return 500;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 1000;
#else
  return 25000;
#endif
}

// Seeds that once failed. A change of the model changes a seed's history, so what these showed is
// also a case of the suite JudgeEnd.
TEST_F(Supervisor, ReportsOnceFailedHistoriesCorrectly) {
  for (const std::uint64_t seed :
       std::vector<std::uint64_t>{232752267853815176, 12042840843594051199U})
    run_many(seed, 1);
}

TEST_F(Supervisor, ReportsUndisturbedJobsCorrectly) {
  run_many(seeds::seed(100'000), histories() / 4, Chances::none());
}

// The launcher must not wait for ranks whose agent has left properly.
TEST_F(Supervisor, ReportsCorrectlyWhenAnAgentLeavesBeforeItsRanks) {
  Chances chances = Chances::none();
  chances.agent_gives_up = 0.5;
  chances.agent_pauses = 0.5;
  run_many(seeds::seed(200'000), 3 * histories(), chances);
}

TEST_F(Supervisor, ReportsElasticJobsCorrectly) {
  Chances chances = Chances::none();
  chances.is_elastic = 1;
  chances.rank_fails = 0.2;
  chances.member_dies = 0.02;
  chances.member_disconnects = chances.member_is_stopped = 0.01;
  run_many(seeds::seed(300'000), 2 * histories(), chances);
}

TEST_F(Supervisor, ReportsElasticJobsThatLoseHostsCorrectly) {
  Chances chances = Chances::none();
  chances.is_elastic = 1;
  chances.only_hosts_are_lost = true;
  chances.collective_fails = 0;
  chances.agent_is_killed = chances.link_is_cut = 0.15;
  run_many(seeds::seed(350'000), 2 * histories(), chances);
  chances.only_hosts_are_lost = false;
  chances.agent_gives_up = chances.agent_pauses = 0.1;
  chances.rank_fails = 0.1;
  chances.member_dies = 0.02;
  run_many(seeds::seed(380'000), histories(), chances);
}

TEST_F(Supervisor, ReportsElasticJobsThatAreDisturbed) {
  Chances chances;
  chances.is_elastic = 1;
  chances.user_interrupts = 0.02;
  for (const std::uint64_t seed : {18167771841208038319U, 11441562131898991633U})  // failed once
    run_many(seed, 1, chances);
  run_many(seeds::seed(400'000), histories(), chances);
}

class SupervisorHistories : public Supervisor, public testing::WithParamInterface<int> {};

TEST_P(SupervisorHistories, AreReportedCorrectly) {
  constexpr std::uint64_t kApart = 1000;  // so that quarters do not share seeds
  run_many(seeds::seed(static_cast<std::uint64_t>(GetParam()) * kApart), histories());
}

INSTANTIATE_TEST_SUITE_P(Quarters, SupervisorHistories, testing::Range(0, 4));

}  // namespace
}  // namespace hvdrun
