#include "agent/spawn.hpp"

#include "../temporary_folder.hpp"
#include "agent/descriptor_limit.hpp"
#include "base/event_loop.hpp"
#include "base/system.hpp"
#include "common/fd.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace {

std::atomic<bool> no_more_threads{false};

}  // namespace

// Replaces libc's function in the test program. It can fail as if no thread could be created.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return no_more_threads ? EAGAIN : real(thread, attributes, start, argument);
}

namespace hvdrun {
namespace {

class Spawn : public ::testing::Test {
 protected:
  // Runs a shell script in the way of a rank. Returns what it prints.
  std::string run(const std::string& script) {
    request_.program = "/bin/sh";
    request_.arguments = {"sh", "-c", script};
    return run_request();
  }

  std::string run_request() {
    auto output = make_pipe();
    const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    request_.input = null.get();
    request_.output = output->write.get();
    request_.error = output->write.get();
    const auto pid = spawn(request_);
    if (!pid) {
      error_ = pid.error();
      return {};
    }
    output->write.reset();
    std::string text;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = ::read(output->read.get(), bytes, sizeof bytes)) > 0)
      text.append(bytes, static_cast<std::size_t>(got));
    EXPECT_EQ(::waitpid(*pid, &status_, 0), *pid);
    pid_ = *pid;
    return text;
  }

  std::filesystem::path script(const std::string& text) {
    const auto file = folder_.path() / "script";
    std::ofstream(file) << text;
    ::chmod(file.c_str(), 0755);
    return file;
  }

  TemporaryFolder folder_;
  SpawnRequest request_;
  Error error_;
  pid_t pid_ = 0;
  int status_ = -1;
};

TEST_F(Spawn, PassesExactlyTheEnvironmentAndArguments) {
  request_.program = "/usr/bin/env";
  request_.arguments = {"env"};
  request_.environment = {"A=1", "B=two\nlines"};
  EXPECT_EQ(run_request(), "A=1\nB=two\nlines\n");
}

TEST_F(Spawn, ProcessLeadsASession) {
  const auto text = run("cut -d' ' -f1,5,6 /proc/self/stat; cut -d' ' -f1 /proc/$$/stat");
  int cut = 0;
  int group = 0;
  int session = 0;
  int shell = 0;
  ASSERT_EQ(std::sscanf(text.c_str(), "%d %d %d %d", &cut, &group, &session, &shell), 4) << text;
  EXPECT_EQ(shell, pid_);
  EXPECT_EQ(group, pid_);
  EXPECT_EQ(session, pid_);
}

TEST_F(Spawn, BindsToCoresBeforeTheProgramRuns) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int last = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) last = cpu;
  request_.cpus = {last};
  request_.numa_nodes = {0};
  EXPECT_EQ(run("grep Cpus_allowed_list /proc/self/status"),
            "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
}

TEST_F(Spawn, ProcessIgnoresAndBlocksNoSignal) {
  const auto all = {SIGHUP, SIGINT, SIGPIPE, SIGUSR1};
  for (const int signal : all) ::signal(signal, SIG_IGN);
  const auto before = block_signals(all);
  const auto text = run("grep -E 'SigIgn|SigBlk' /proc/self/status");
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  for (const int signal : all) ::signal(signal, SIG_DFL);
  EXPECT_EQ(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(Spawn, PassesOnlyTheStreamsAndTheInheritedDescriptor) {
  const Fd inherited(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const Fd other(::open("/dev/full", O_RDONLY | O_CLOEXEC));
  request_.inherited = inherited.get();
  const auto text = run("ls -l /proc/$$/fd; true");
  EXPECT_NE(text.find(std::to_string(inherited.get()) + " -> /dev/zero\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("/dev/full"), std::string::npos) << text;
}

TEST_F(Spawn, SetsTheLimitOfDescriptors) {
  const auto own = raise_descriptor_limit(300);
  request_.limits = {{RLIMIT_NOFILE, {200, own.rlim_max}}};
  const auto text = run("ulimit -Sn");
  ::setrlimit(RLIMIT_NOFILE, &own);
  EXPECT_EQ(text, "200\n");
}

TEST_F(Spawn, OnlyRaisesSoftLimits) {
  rlimit own{};
  ::getrlimit(RLIMIT_CPU, &own);
  const rlimit low{1000, own.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_CPU, &low), 0);
  request_.limits = {{RLIMIT_CPU, {500, 500}}, {RLIMIT_CORE, {0, 0}}};
  EXPECT_EQ(run("ulimit -St; ulimit -Hc"), "1000\n0\n");
  request_.limits = {{RLIMIT_CPU, {2000, 500}}};  // above its own hard limit
  EXPECT_EQ(run("ulimit -St"), "2000\n");
  ::setrlimit(RLIMIT_CPU, &own);
}

TEST_F(Spawn, MissingProgramIs127AndLeavesNoChild) {
  request_.program = "/nonexistent/train";
  request_.arguments = {"train"};
  run_request();
  EXPECT_EQ(error_.exit_code, kExitNotFound);
  EXPECT_EQ(error_.message, "cannot run /nonexistent/train: No such file or directory");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "the failed child was not reaped";
}

TEST_F(Spawn, InvalidStreamDescriptorIsAnError) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  request_.program = "/bin/true";
  request_.arguments = {"true"};
  request_.input = request_.error = null.get();
  request_.output = 1 << 20;
  const auto pid = spawn(request_);
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().message, "cannot run /bin/true: Bad file descriptor");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "the failed child was not reaped";
}

TEST_F(Spawn, ErrorNamesAMissingInterpreter) {
  request_.program = script("#!/nonexistent/python3 -u\n");
  request_.arguments = {"script"};
  run_request();
  EXPECT_EQ(error_.exit_code, kExitNotFound);
  EXPECT_NE(error_.message.find("interpreter /nonexistent/python3,"), std::string::npos)
      << error_.message;
}

TEST_F(Spawn, ScriptWithoutInterpreterLineRunsInTheShell) {
  request_.program = script("echo \"$0 $1\"\n");
  request_.arguments = {"script", "word"};
  EXPECT_EQ(run_request(), request_.program + " word\n");
}

TEST_F(Spawn, NonExecutableProgramIs126) {
  request_.program = script("#!/bin/sh\n");
  ::chmod(request_.program.c_str(), 0644);
  request_.arguments = {"script"};
  run_request();
  EXPECT_EQ(error_.exit_code, kExitNotExecutable);
}

TEST_F(Spawn, TooLargeEnvironmentIsReported) {
  request_.environment = {"BIG=" + std::string(200 << 10, 'x')};
  run("true");
  EXPECT_EQ(error_.exit_code, kExitNotExecutable);
  EXPECT_NE(error_.message.find("128 KB for one variable"), std::string::npos) << error_.message;
}

TEST_F(Spawn, ProcessDiesWithTheThreadThatStartedIt) {
  auto output = make_pipe();
  auto input = make_pipe();
  const pid_t parent = ::fork();
  if (parent == 0) {
    request_.program = "/bin/sh";
    request_.arguments = {"sh", "-c", "echo; read x"};  // a builtin: the shell waits by itself
    request_.input = input->read.get();
    request_.error = request_.output = output->write.get();
    char byte = 0;
    ::_exit(spawn(request_) && ::read(output->read.get(), &byte, 1) == 1 ? 0 : 1);
  }
  output->write.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  ASSERT_EQ(status, 0);
  char byte = 0;
  EXPECT_EQ(::read(output->read.get(), &byte, 1), 0) << "end of file: the shell is gone";
}

TEST_F(Spawn, PoolWithoutThreadsSpawnsEveryProcess) {
  SpawnRequest request;
  request.program = "/bin/true";
  request.arguments = {"true"};
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  request.input = request.output = request.error = null.get();
  const std::vector<SpawnRequest> requests(8, request);
  no_more_threads = true;
  SpawnPool pool;
  const auto results = pool.spawn_all(requests);
  no_more_threads = false;
  for (const auto& result : results) {
    ASSERT_TRUE(result) << result.error().message;
    ::waitpid(*result, nullptr, 0);
  }
}

}  // namespace
}  // namespace hvdrun
