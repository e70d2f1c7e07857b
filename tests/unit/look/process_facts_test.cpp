// What a look reads of /proc about a thread, and that a thread which waits is not taken for one
// that runs.
#include "look/process_facts.hpp"

#include "look/system_calls.hpp"
#include "temporary_folder.hpp"

#include <csignal>
#include <ctime>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// A child that sleeps until it is killed. The look says that it ran at first.
class ProcessFactsTest : public testing::Test {
 protected:
  ProcessFactsTest() : child_(::fork()) {
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const timespec span{1000, 0};
      while (true) ::clock_nanosleep(CLOCK_MONOTONIC, 0, &span, nullptr);
    }
    while (system_call_name(read_system_call(child_, child_).number) != "clock_nanosleep")
      std::this_thread::yield();
    read_facts(child_, look_, calls_);
    auto& thread = look_.threads.at(0);
    look_.state = thread.state = 'R';
    thread.system_call.clear();
  }
  ~ProcessFactsTest() override {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  const ThreadLook& read_again(double cpu_seconds) {
    look_.threads.at(0).movement = Movement{1, cpu_seconds, 2, false};
    read_woken_again(child_, Memory(child_), calls_, look_);
    return look_.threads.at(0);
  }

  pid_t child_;
  ProcessLook look_;
  ThreadCalls calls_;
};

TEST_F(ProcessFactsTest, AThreadThatWasWokenForAMomentWaits) {
  const auto& thread = read_again(0.001);
  EXPECT_EQ(thread.state, 'S');
  EXPECT_EQ(look_.state, 'S');
  EXPECT_EQ(thread.system_call, "clock_nanosleep");
  EXPECT_EQ(thread.waits_for, "1000 s");
  EXPECT_TRUE(thread.waiting_seconds);
  EXPECT_EQ(thread.movement->switches, 2U);
}

TEST_F(ProcessFactsTest, AThreadThatUsedAProcessorRan) {
  EXPECT_EQ(read_again(0.5).state, 'R');
  EXPECT_EQ(look_.state, 'R');
}

TEST(YamaWords, SayWhoMayLook) {
  EXPECT_EQ(yama_words("", false), "") << "a kernel without Yama";
  EXPECT_EQ(yama_words("0\n", false), "");
  EXPECT_EQ(yama_words("1\n", false),
            "kernel.yama.ptrace_scope is 1: only the one that started it may look at it (sysctl "
            "kernel.yama.ptrace_scope=0)");
  EXPECT_EQ(yama_words("2\n", false),
            "kernel.yama.ptrace_scope is 2: only root may look at processes (sysctl "
            "kernel.yama.ptrace_scope=0)");
  EXPECT_EQ(yama_words("1\n", true), "");
  EXPECT_EQ(yama_words("2\n", true), "") << "the right is missing for another reason";
}

TEST(YamaWords, SayThatNotEvenRootMay) {
  EXPECT_EQ(yama_words("3\n", true),
            "kernel.yama.ptrace_scope is 3: no process may be looked at until this machine starts "
            "again");
}

TEST_F(ProcessFactsTest, ARefusalNamesYamaOrWhatElseMayForbidIt) {
  const test_tools::TemporaryFolder folder;
  const std::string file = folder.file("ptrace_scope");
  std::ofstream(file) << "3\n";
  EXPECT_THAT(why_refused(child_, look_, file), testing::HasSubstr("ptrace_scope is 3"));
  EXPECT_THAT(why_refused(child_, look_, folder.file("none")),
              testing::HasSubstr("the kernel does not permit ptrace here"));
}

}  // namespace
}  // namespace hvdrun
