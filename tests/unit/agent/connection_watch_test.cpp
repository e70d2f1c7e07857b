// Tests the watch for TCP connections of ranks with sockets of the test process.
#include "agent/connection_watch.hpp"

#include "agent/held_ports.hpp"
#include "base/event_loop.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kMinute{60000};

// Has a server at a held port, and a second held port without a listener.
class ConnectionWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    do {  // until the kernel remembers no connection at the ports
      auto ports = hold_ports(2, 0);
      ASSERT_TRUE(ports) << ports.error().message;
      ports_ = std::move(*ports);
    } while (has_connection({port(), ports_[1].number}, kMinute));
    server_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(server_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address_.sin_port = htons(static_cast<std::uint16_t>(port()));
    ASSERT_EQ(::bind(server_.get(), generic(), sizeof address_), 0);
    ASSERT_EQ(::listen(server_.get(), 16), 0);
    job_.size = 2;
    job_.ranks.resize(1);
  }

  struct Connection {
    Fd client;
    Fd server;
  };

  Connection connect() const {
    Connection made{Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), {}};
    EXPECT_EQ(::connect(made.client.get(), generic(), sizeof address_), 0);
    made.server = Fd(::accept(server_.get(), nullptr, nullptr));
    EXPECT_TRUE(made.server);
    return made;
  }

  int port() const { return ports_[0].number; }
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address_); }

  std::vector<HeldPort> ports_;
  Fd server_;
  sockaddr_in address_{};
  LaunchMessage job_;
  const EventLoop loop_;
};

// Closes a connection so that the kernel forgets it at once (SO_LINGER in socket(7)).
void abort_connection(const Fd& socket) {
  const linger reset{1, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

// Returns a line of /proc/net/tcp. The ports are 0x1F90 = 8080 and 0x0050 = 80.
std::string line(const std::string& state, const std::string& timer) {
  return "   3: 0100007F:1F90 0200007F:0050 " + state + " 00000000:00000000 " + timer +
         " 00000000     0        0 12345 1 0000000000000000 20 4 30 10 -1";
}

TEST(IsConnection, MatchesAnOpenConnectionAtEitherPort) {
  const auto open = line("01", "00:00000000");
  EXPECT_TRUE(is_connection(open, {8080}, milliseconds(0)));
  EXPECT_TRUE(is_connection(open, {80}, milliseconds(0)));
  EXPECT_FALSE(is_connection(open, {8081, 12345}, kMinute));
  EXPECT_FALSE(is_connection(line("0A", "00:00000000"), {8080}, kMinute)) << "a listening socket";
  EXPECT_FALSE(is_connection("x y", {80}, kMinute));
}

TEST(IsConnection, MatchesAClosedConnectionThatEndedAfterTheJobBegan) {
  const auto ticks = ::sysconf(_SC_CLK_TCK);
  ASSERT_EQ(ticks, 100);
  const auto closed_10_s_ago = line("06", "03:00001388");  // 5000 of its 6000 ticks are left
  const milliseconds age = milliseconds(10000) - kClockTolerance;
  EXPECT_FALSE(is_connection(closed_10_s_ago, {8080}, age - milliseconds(10)));
  EXPECT_TRUE(is_connection(closed_10_s_ago, {8080}, age));
  EXPECT_FALSE(is_connection(closed_10_s_ago, {8081}, kMinute));
  EXPECT_TRUE(is_connection(line("06", "00:00000000"), {8080}, milliseconds(0)))
      << "the time of its end is unknown";
  EXPECT_TRUE(is_connection(line("05", "03:00001388"), {8080}, milliseconds(0)))
      << "its peer is still open (FIN_WAIT2)";
}

TEST_F(ConnectionWatchTest, FindsAClosedConnectionForAMinute) {
  ASSERT_FALSE(has_connection({ports_[1].number}, kMinute));
  const auto begin = Clock::now();
  connect();
  EXPECT_TRUE(has_connection({port()}, std::chrono::ceil<milliseconds>(Clock::now() - begin)));
  EXPECT_FALSE(has_connection({ports_[1].number}, kMinute));
}

TEST_F(ConnectionWatchTest, IgnoresAnEarlierJobsConnectionAtTheSamePort) {
  connect();
  ASSERT_TRUE(has_connection({port()}, kMinute));
  for (const auto begin = Clock::now(); has_connection({port()}, milliseconds(0));)
    ASSERT_LT(Clock::now() - begin, kMinute);
  ConnectionWatch watch(loop_, {[] { return false; }, [] {}});
  watch.start(job_, ports_);
  watch.look();
  // The watch looks at descendants of this process only, so it does not see these sockets.
  EXPECT_FALSE(watch.seen());
  // Ranks of the next job connect and close at once.
  const auto begin = Clock::now();
  while (!watch.seen()) {
    ASSERT_LT(Clock::now() - begin, kMinute);
    connect();
    watch.look();
  }
}

TEST_F(ConnectionWatchTest, RemembersAConnectionThatTheKernelHasForgotten) {
  ConnectionWatch watch(loop_, {[] { return false; }, [] {}});
  watch.start(job_, ports_);
  watch.look();
  EXPECT_FALSE(watch.seen());
  {
    const auto connection = connect();
    watch.look();
    abort_connection(connection.client);
    abort_connection(connection.server);
  }
  EXPECT_FALSE(has_connection({port()}, kMinute));
  EXPECT_TRUE(watch.seen());
}

// Reading the kernel's table would take longer than such a job.
TEST_F(ConnectionWatchTest, DoesNotExamineAShortJob) {
  const auto connection = connect();
  for (auto passed = kShortestExamined; passed >= kShortestExamined;) {
    const auto begin = Clock::now();
    ConnectionWatch watch(loop_, {[] { return false; }, [] {}});
    watch.start(job_, ports_);
    watch.rank_ended();
    watch.finish();
    passed = std::chrono::ceil<milliseconds>(Clock::now() - begin);
    if (passed >= kShortestExamined) continue;  // the machine paused this process
    EXPECT_FALSE(watch.seen());
    EXPECT_TRUE(watch.was_too_short());
  }
}

TEST_F(ConnectionWatchTest, ExaminesALongerJobAtItsEnd) {
  const auto connection = connect();
  ConnectionWatch watch(loop_, {[] { return false; }, [] {}});
  watch.start(job_, ports_);
  std::this_thread::sleep_for(kShortestExamined);
  watch.finish();
  EXPECT_TRUE(watch.seen());
  EXPECT_FALSE(watch.was_too_short());
}

TEST_F(ConnectionWatchTest, DoesNotExamineAJobWhoseRanksJoinedInAnotherWay) {
  const auto connection = connect();
  ConnectionWatch watch(loop_, {[] { return true; }, [] {}});
  watch.start(job_, ports_);
  watch.finish();
  EXPECT_FALSE(watch.seen());
  EXPECT_FALSE(watch.was_too_short());
}

TEST(LibrariesOfMpi, AreReadFromTheProgramsFile) {
  const auto file =
      std::filesystem::path(testing::TempDir()) / ("libraries-" + std::to_string(::getpid()));
  const auto says = [&file](const std::string& text) {
    std::ofstream(file) << text << std::flush;
    const auto named = libraries_named_in(file);
    return std::string(named.mpich ? "mpich" : "") + (named.open_mpi ? "open mpi" : "");
  };
  const std::string elf =
      "\x7f"
      "ELF....libc.so.6.";
  EXPECT_EQ(says(elf + "libmpich.so.12"), "mpich");
  EXPECT_EQ(says(elf + "libmpi.so.12"), "mpich");
  EXPECT_EQ(says(elf + "libmpi.so.40"), "open mpi");
  EXPECT_EQ(says(elf + "libmpicxx.so"), "");
  EXPECT_EQ(says("#!/bin/sh\n# libmpich.so.12"), "");
  std::filesystem::remove(file);
  EXPECT_FALSE(libraries_named_in(file).mpich);
}

TEST_F(ConnectionWatchTest, RecognizesAShortJobOfMpich) {
  const auto file =
      std::filesystem::path(testing::TempDir()) / ("short-" + std::to_string(::getpid()));
  std::ofstream(file) << "\x7f"
                         "ELF....libmpich.so.12"
                      << std::flush;
  job_.program = file;
  ConnectionWatch watch(loop_, {[] { return false; }, [] {}});
  watch.start(job_, ports_);
  watch.finish();
  std::filesystem::remove(file);
  EXPECT_TRUE(watch.apart().uses_mpich);
  EXPECT_FALSE(watch.was_too_short());
}

TEST_F(ConnectionWatchTest, KnowsThatOpenMpiCannotJoinWithoutPmix) {
  const auto file =
      std::filesystem::path(testing::TempDir()) / ("open-mpi-" + std::to_string(::getpid()));
  std::ofstream(file) << "\x7f"
                         "ELF....libmpi.so.40"
                      << std::flush;
  job_.program = file;
  for (const bool has_pmix : {false, true}) {
    job_.pmix_namespace = has_pmix ? "namespace" : "";
    ConnectionWatch watch(loop_, {[] { return false; }, [] {}});
    watch.start(job_, ports_);
    watch.finish();
    EXPECT_EQ(watch.apart().lacks_pmix, !has_pmix);
    EXPECT_EQ(watch.was_too_short(), has_pmix);
  }
  std::filesystem::remove(file);
}

TEST_F(ConnectionWatchTest, IgnoresAListeningSocket) {
  SocketsByNamespace known;
  EXPECT_FALSE(has_tcp_socket(::getpid(), known));
}

TEST_F(ConnectionWatchTest, ReadsANetworkNamespaceOnceForAllItsProcesses) {
  const auto connection = connect();
  SocketsByNamespace known;
  EXPECT_TRUE(has_tcp_socket(::getpid(), known));
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known.begin()->first, std::filesystem::read_symlink("/proc/self/ns/net"));
  known.begin()->second.clear();
  EXPECT_FALSE(has_tcp_socket(::getpid(), known)) << "the namespace was read again";
}

TEST(HasTcpSocket, IsFalseForAnEndedProcess) {
  SocketsByNamespace known;
  EXPECT_FALSE(has_tcp_socket(0x7fffffff, known));
}

TEST(ConnectionWatch, LooksEverMoreSeldomAndInTimeForTheWarning) {
  int looks = 0;
  milliseconds age(1000);
  for (; age < kMinute; ++looks) age += interval_after(age, kMinute - age);
  EXPECT_LT(age, kMinute + milliseconds(1000));
  EXPECT_LE(looks, 18);
  for (looks = 0; age < 24 * 60 * kMinute; ++looks) age += interval_after(age, age);
  EXPECT_LE(looks, 33);
}

}  // namespace
}  // namespace hvdrun
