#include "agent/signal_targets.hpp"

#include "base/system.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr auto kHandles = SignalUse::handles;
constexpr auto kWaits = SignalUse::waits;

// The processes of a rank and what they do with the signal. Process 1 is the rank.
struct Tree {
  std::vector<ProcessInfo> processes;
  std::map<pid_t, SignalLook> looks;

  Tree& add(pid_t pid, pid_t parent, SignalLook look = {}) {
    ProcessInfo info;
    info.pid = pid;
    info.parent = parent;
    info.state = 'S';
    processes.push_back(info);
    looks[pid] = look;
    return *this;
  }
};

struct Pids {
  std::vector<pid_t> now;
  std::vector<pid_t> awaited;
  friend bool operator==(const Pids&, const Pids&) = default;
};

std::vector<pid_t> sorted(const std::vector<ProcessInfo>& processes) {
  std::vector<pid_t> pids;
  for (const auto& process : processes) pids.push_back(process.pid);
  std::ranges::sort(pids);
  return pids;
}

Pids targets(const Tree& tree) {
  const auto found = targets_in(1, tree.processes, [&](pid_t pid) { return tree.looks.at(pid); });
  return {sorted(found.now), sorted(found.awaited)};
}

TEST(SignalTargets, NoneWhereNothingUsesTheSignal) {
  EXPECT_EQ(targets(Tree().add(1, 0).add(2, 1)), Pids());
  EXPECT_EQ(targets(Tree()), Pids());
}

// The workers have inherited the handler.
TEST(SignalTargets, TrainerIsAwaitedByItsWorkers) {
  EXPECT_EQ(targets(Tree().add(1, 0, {kHandles}).add(2, 1, {kHandles}).add(3, 1)), Pids({1}, {1}));
}

TEST(SignalTargets, TrainerBelowWrappersIsAwaitedByThemAndItsWorkers) {
  EXPECT_EQ(targets(Tree().add(1, 0).add(2, 1).add(3, 2, {kHandles}).add(4, 3, {kHandles})),
            Pids({3}, {3}));
}

TEST(SignalTargets, EachOfTwoTrainersIsOne) {
  const auto tree = Tree().add(1, 0).add(2, 1, {kHandles}).add(3, 1, {kHandles}).add(4, 1);
  EXPECT_EQ(targets(tree), Pids({2, 3}, {2, 3}));
}

// A shell runs its trap when the program in the foreground has ended.
TEST(SignalTargets, ShellWithATrapDoesNotKeepTheSignalFromItsProgram) {
  const auto tree = Tree().add(1, 0, {kHandles, true}).add(2, 1, {kHandles}).add(3, 2, {kHandles});
  EXPECT_EQ(targets(tree), Pids({1, 2}, {2}));
}

TEST(SignalTargets, ProgramWithoutAHandlerBelowATrapGetsTheSignalWhole) {
  EXPECT_EQ(targets(Tree().add(1, 0, {kHandles, true}).add(2, 1).add(3, 2)), Pids({1, 2, 3}, {}));
}

// "python3 train.py | tee log" in a shell with a trap.
TEST(SignalTargets, RestOfAPipelineWaitsForItsTrainer) {
  const auto tree = Tree().add(1, 0, {kHandles, true}).add(2, 1, {kHandles}).add(3, 1);
  EXPECT_EQ(targets(tree), Pids({1, 2}, {2}));
}

// "python3 train.py & wait": the trap runs at once, and may pass the signal on.
TEST(SignalTargets, ProgramInTheBackgroundIsLeftToTheShellsTrap) {
  const SignalLook shell{kHandles, true};
  const SignalLook program{kHandles, false, true};
  EXPECT_EQ(targets(Tree().add(1, 0, shell).add(2, 1, program)), Pids({1}, {1}));
  EXPECT_EQ(targets(Tree().add(1, 0, shell).add(2, 1, program).add(3, 1)), Pids({1, 3}, {1}));
  EXPECT_EQ(targets(Tree().add(1, 0, shell).add(2, 1, program).add(3, 1, {kHandles})),
            Pids({1, 3}, {3}));
}

TEST(SignalTargets, ProcessThatBlocksItIsOneIfNoneHandlesIt) {
  EXPECT_EQ(targets(Tree().add(1, 0).add(2, 1, {kWaits})), Pids({2}, {2}));
  EXPECT_EQ(targets(Tree().add(1, 0, {kWaits}).add(2, 1, {kHandles})), Pids({2}, {2}));
}

TEST(SignalTargets, DeadProcessIsNone) {
  auto tree = Tree().add(1, 0).add(2, 1, {kHandles});
  tree.processes[1].state = 'Z';
  EXPECT_EQ(targets(tree), Pids());
}

// A child that has set its signals up, and ends with this object.
class Child {
 public:
  explicit Child(void (*prepare)()) {
    auto ready = make_pipe();
    pid_ = ::fork();
    if (pid_ == 0) {
      prepare();
      [[maybe_unused]] const auto put = ::write(ready->write.get(), "r", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    [[maybe_unused]] const auto got = ::read(ready->read.get(), &byte, 1);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(SignalTargets, LookSeesWhatAProcessDoesWithASignal) {
  const Child handles([] { std::signal(SIGTERM, [](int) {}); });
  const Child blocks([] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
  });
  const Child ignores([] { std::signal(SIGTERM, SIG_IGN); });
  EXPECT_EQ(look_at(handles.pid(), SIGTERM).use, SignalUse::handles);
  EXPECT_FALSE(look_at(handles.pid(), SIGTERM).waits_for_child);
  EXPECT_EQ(look_at(blocks.pid(), SIGTERM).use, SignalUse::waits);
  EXPECT_EQ(look_at(ignores.pid(), SIGTERM).use, SignalUse::none);
  EXPECT_EQ(look_at(handles.pid(), SIGUSR1).use, SignalUse::none);
  EXPECT_EQ(use_of(0, SIGTERM), SignalUse::none);
}

}  // namespace
}  // namespace hvdrun
