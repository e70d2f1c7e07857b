// Tests the agent that srun starts: this build's hvdrun with a pipe as its stdin, and a listener in
// the test. Also tests SrunAgents without srun and with a fake srun.
#include "remote/srun_agent.hpp"

#include "../temporary_folder.hpp"
#include "agent/job_folders.hpp"
#include "agent_process.hpp"
#include "base/system.hpp"
#include "base/version.hpp"
#include "channels/child_process.hpp"
#include "channels/srun_agents.hpp"
#include "channels/tls_listener.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"
#include "remote/remote_agent.hpp"
#include "run_until.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

class SrunAgent : public testing::Test {
 protected:
  SrunAgent() { ::signal(SIGPIPE, SIG_IGN); }

  void start_agent() {
    ChildOptions options;
    options.environment = {"PATH=/usr/bin:/bin", "SLURMD_NODENAME=n1", "SLURM_PROCID=0"};
    auto started = start_child(
        {HVDRUN_PROGRAM, std::string(kAgentArgument), std::string(kSrunArgument)}, options);
    ASSERT_TRUE(started) << started.error().message;
    agent_ = std::move(*started);
  }

  void open_listener() {
    auto listener = TlsListener::open(
        loop_, key_, {"127.0.0.1"}, {},
        {[](const auto& agent) {
           return agent.host == "n1" ? std::optional<std::uint32_t>(3) : std::nullopt;
         },
         [this](const auto&, Connection tls) { take(std::move(tls)); }});
    ASSERT_TRUE(listener) << listener.error().message;
    listener_ = std::move(*listener);
  }

  void take(Connection connection) {
    LinkEnd end;
    end.tls = tls_ = std::make_shared<TlsLink>(TlsLink{std::move(connection), {}});
    link_ = std::make_unique<Link>(
        loop_, std::move(end),
        Link::Events{[this](const Frame& frame) { on_frame(frame); },
                     [this](const std::optional<Error>&) { closed_ = true; }});
  }

  void on_frame(const Frame& frame) {
    if (frame.type == FrameType::hello) hello_ = *parse<HelloMessage>(frame.payload);
    if (frame.type == FrameType::done) done_ = true;
    if (frame.type == FrameType::died) death_ = frame.payload;
  }

  void write_to_agent(const std::string& text) {
    ASSERT_EQ(::write(agent_.link.out.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }

  void send_credentials() {
    write_to_agent(
        pack_credentials({kVersion, key_, std::chrono::seconds(30), listener_->addresses()}));
  }

  void configure() {
    ConfigureMessage message;
    message.version = kVersion;
    message.job_id = key_.identity;
    message.agent = 3;
    message.pmix = PmixMode::off;
    link_->send(FrameType::configure, 0, pack(message));
  }

  void start_with_hello() {
    open_listener();
    start_agent();
    send_credentials();
    run_until(
        loop_, [&] { return link_ != nullptr; }, "the link");
    configure();
    run_until(
        loop_, [&] { return hello_.has_value(); }, "hello");
  }

  EventLoop loop_;
  TlsKey key_ = make_link_key(random_hex(16));
  ChildProcess agent_;
  std::unique_ptr<TlsListener> listener_;
  std::shared_ptr<TlsLink> tls_;
  std::unique_ptr<Link> link_;
  std::optional<HelloMessage> hello_;
  bool done_ = false;
  std::string death_;
  bool closed_ = false;
};

TEST_F(SrunAgent, GreetsAndExitsWithoutErrors) {
  start_with_hello();
  EXPECT_EQ(hello_->version, kVersion);
  StopMessage stop;
  stop.signal = SIGTERM;
  link_->send(FrameType::stop, 0, pack(stop));
  run_until(
      loop_, [&] { return closed_; }, "the end of the link");
  EXPECT_TRUE(done_);
  link_.reset();
  EXPECT_EQ(wait_for(agent_), 0);
  EXPECT_EQ(read_all(agent_.errors), "");
  EXPECT_EQ(tls_->lost, "");
}

// SLURM sends SIGTERM to all processes of a step. The launcher decides when the agent ends.
TEST_F(SrunAgent, IsNotEndedBySignals) {
  start_with_hello();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2})
    ASSERT_EQ(::kill(agent_.pid, signal), 0);
  link_->send(FrameType::stop, 0, pack(StopMessage{SIGTERM, std::chrono::milliseconds(0)}));
  run_until(
      loop_, [&] { return closed_; }, "the end of the link");
  EXPECT_TRUE(done_);
  link_.reset();
  EXPECT_EQ(wait_for(agent_), 0);
}

TEST_F(SrunAgent, ExitsWhenTheLauncherIsGone) {
  start_with_hello();
  link_.reset();
  EXPECT_EQ(wait_for(agent_), 0);
}

// When the task is killed, the launcher sees it at once, and the agent ends by itself.
TEST_F(SrunAgent, EndsWhenItsTaskIsKilled) {
  start_with_hello();
  ASSERT_EQ(::kill(agent_.pid, SIGKILL), 0);
  run_until(
      loop_, [&] { return closed_; }, "the end of the link");
  EXPECT_FALSE(done_);
  EXPECT_EQ(wait_for(agent_), -1);
  EXPECT_EQ(read_all(agent_.errors),
            "");  // at the end of file, the agent and its guard have ended too
}

TEST_F(SrunAgent, SaysHowItWasKilled) {
  start_with_hello();
  ASSERT_EQ(::kill(hello_->pid, SIGKILL), 0);
  run_until(
      loop_, [&] { return closed_; }, "the end of the link");
  EXPECT_EQ(death_, "killed by SIGKILL");
  EXPECT_EQ(tls_->lost, "");
  link_.reset();
  EXPECT_EQ(wait_for(agent_), kExitSignalBase + SIGKILL);
}

TEST_F(SrunAgent, ExitsIfTheLauncherClosesStdinBeforeItSendsCredentials) {
  start_agent();
  agent_.link = {};
  EXPECT_EQ(wait_for(agent_), kExitLauncher);
  EXPECT_EQ(read_all(agent_.errors), "hvdrun: the launcher has hung up before it said anything\n");
}

TEST_F(SrunAgent, ExitsIfTheLauncherClosesStdinWhileItConnects) {
  start_agent();
  open_listener();
  const auto addresses = listener_->addresses();
  listener_.reset();
  write_to_agent(pack_credentials({kVersion, key_, std::chrono::seconds(3000), addresses}));
  agent_.link = {};
  EXPECT_EQ(wait_for(agent_), kExitLauncher);
  EXPECT_NE(read_all(agent_.errors).find("the launcher has hung up"), std::string::npos);
}

TEST_F(SrunAgent, PrintsThatItCannotReachTheLauncher) {
  start_agent();
  open_listener();
  const auto addresses = listener_->addresses();
  listener_.reset();
  write_to_agent(pack_credentials({kVersion, key_, std::chrono::seconds(1), addresses}));
  EXPECT_EQ(wait_for(agent_), kExitLauncher);
  EXPECT_EQ(read_all(agent_.errors),
            "hvdrun: cannot reach the launcher (127.0.0.1 port " +
                std::to_string(addresses.front().port) +
                ": cannot connect: Connection refused); --network-interface says which of its "
                "interfaces this host can reach\n");
}

TEST_F(SrunAgent, RefusesInvalidCredentials) {
  start_agent();
  write_to_agent("exec evil\n");
  EXPECT_EQ(wait_for(agent_), kExitLauncher);
  EXPECT_EQ(read_all(agent_.errors),
            "hvdrun: this is hvdrun's agent, which only hvdrun can start\n");
}

// A launcher with another key is not trusted.
TEST_F(SrunAgent, DoesNotConnectToALauncherWithAnotherKey) {
  open_listener();
  start_agent();
  write_to_agent(pack_credentials(
      {kVersion, make_link_key(key_.identity), std::chrono::seconds(1), listener_->addresses()}));
  run_until(
      loop_, [&] { return listener_->refused() > 0; }, "a refusal");
  agent_.link = {};
  EXPECT_EQ(wait_for(agent_), kExitLauncher);
  EXPECT_EQ(link_, nullptr);
}

TEST(Cleanup, RemovesAnAgentsFolders) {
  const std::string job = random_hex(16);
  auto folders = JobFolders::of(job, 3);
  auto others = JobFolders::of(job, 4);
  ASSERT_TRUE(folders.create(true));
  ASSERT_TRUE(others.create(true));
  EXPECT_EQ(run_cleanup({job, "2", "3"}), kExitOk);
  EXPECT_FALSE(std::filesystem::exists(folders.temporary));
  EXPECT_FALSE(std::filesystem::exists(folders.shared));
  EXPECT_TRUE(std::filesystem::exists(others.shared));
  others.clean_up();
}

TEST(Cleanup, RefusesInvalidArguments) {
  for (const char* id : {"", "../../etc", "abc", "0123456789abcdef0123456789abcde/"})
    EXPECT_EQ(run_cleanup({id, "0"}), kExitUsage) << id;
  for (const char* number : {"", "-1", "1/..", "99999999999999999999999"})
    EXPECT_EQ(run_cleanup({random_hex(16), number}), kExitUsage) << number;
  EXPECT_EQ(run_cleanup({}), kExitUsage);
}

class FakeSrun : public testing::Test {
 protected:
  FakeSrun() { ::signal(SIGPIPE, SIG_IGN); }

  std::string script(const std::string& text) {
    const auto path = folder_.path() / "srun";
    std::ofstream(path) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  Result<std::unique_ptr<SrunAgents>> start(const std::string& program) {
    SrunJob job;
    job.srun.program = program;
    job.srun.job_id = "1";
    job.srun.agent_path = HVDRUN_PROGRAM;
    job.hosts = {{"n1", 0, {}}, {"n2", 1, {}}};
    job.job_id = random_hex(16);
    job.interfaces = "lo";
    job.environment = {{"PATH", "/usr/bin:/bin"}};
    job.timeout = std::chrono::seconds(30);
    return SrunAgents::start(
        loop_, job,
        {[this](std::size_t host, LinkEnd end) {
           linked_.push_back(host);
           ends_.push_back(std::move(end));
         },
         [this](const std::vector<SrunFailure>& failures) {
           for (const auto& failure : failures) failures_.push_back(failure);
         },
         [](std::size_t, const std::string&) {}, [](const std::vector<LinkAddress>&) {}});
  }

  TemporaryFolder folder_;
  EventLoop loop_;
  std::vector<std::size_t> linked_;
  std::vector<LinkEnd> ends_;
  std::vector<SrunFailure> failures_;
};

TEST_F(FakeSrun, MissingSrunIsReported) {
  const auto agents = start("/nowhere/srun");
  ASSERT_FALSE(agents);
  EXPECT_EQ(agents.error().message, "cannot start /nowhere/srun: No such file or directory");
}

TEST_F(FakeSrun, EarlyEndIsReportedWithItsHost) {
  auto agents = start(script("echo 'srun: error: Node failure on n2' >&2; exit 1\n"));
  ASSERT_TRUE(agents) << agents.error().message;
  run_until(
      loop_, [&] { return !failures_.empty(); }, "a failure");
  EXPECT_EQ(failures_[0].hosts, std::vector<std::string>{"n2"});
  EXPECT_TRUE((*agents)->reap(std::chrono::seconds(60)));
}

// Returns how many descriptors this process has of the socket.
std::ptrdiff_t descriptors_like(int socket) {
  const std::filesystem::path all("/proc/self/fd");
  const auto same = std::filesystem::read_symlink(all / std::to_string(socket));
  std::error_code gone;  // of the iterator's own descriptor
  return std::count_if(std::filesystem::directory_iterator(all), {}, [&](const auto& each) {
    return std::filesystem::read_symlink(each.path(), gone) == same;
  });
}

// The first agent connects, the second fails, and srun keeps running.
TEST_F(FakeSrun, ConnectsOneAgentAndReportsTheOther) {
  auto agents =
      start(script("echo 'srun: error: n2: task 1: Exited with exit code 2' >&2\n"
                   "echo '1: hvdrun: no room' >&2\n"
                   "export SLURMD_NODENAME=n1 SLURM_PROCID=0\n"
                   "exec " HVDRUN_PROGRAM " --internal-agent srun\n"));
  ASSERT_TRUE(agents) << agents.error().message;
  run_until(
      loop_, [&] { return !failures_.empty() && !linked_.empty(); }, "both");
  EXPECT_EQ(linked_, std::vector<std::size_t>{0});
  EXPECT_EQ(descriptors_like(ends_[0].read_fd()), 1);  // a job may have thousands of hosts
  EXPECT_EQ((*agents)->missing(), std::vector<std::size_t>{1});
  EXPECT_EQ(failures_[0].hosts, std::vector<std::string>{"n2"});
  EXPECT_EQ(failures_[0].message, "no room");
  (*agents)->hang_up();
  ends_.clear();
  agents->reset();  // cuts the link: the agent exits, and so does the fake srun
}

TEST_F(FakeSrun, IsKilledWithItsOwner) {
  auto agents = start(script("exec sleep 1000\n"));
  ASSERT_TRUE(agents) << agents.error().message;
  EXPECT_EQ((*agents)->waiting_for(), "srun was started, and the agent has not connected");
  EXPECT_FALSE((*agents)->reap(std::chrono::milliseconds(0)));
}

// However long the start may take: doubled without a limit, the pause overflowed after a minute.
TEST(NextPause, GrowsToASecondAndStays) {
  std::chrono::milliseconds pause{20};
  for (int round = 0; round < 1000; ++round) {
    const auto next = next_pause(pause);
    ASSERT_GE(next, pause);
    ASSERT_LE(next, std::chrono::seconds(1));
    pause = next;
  }
  EXPECT_EQ(pause, std::chrono::seconds(1));
}

}  // namespace
}  // namespace hvdrun
