#include "support.hpp"

#include "transport/bridge.hpp"
#include "transport/socket_streams.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace libhvd::test {

Environment make_environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::size_t entries_in(const char* folder) {
  const auto range = std::filesystem::directory_iterator(folder);
  return static_cast<std::size_t>(std::distance(begin(range), end(range)));
}

std::size_t count_threads(std::size_t most) {
  std::size_t now = entries_in("/proc/self/task");
  for (int look = 0; look < 5000 && now > most; ++look) {
    ::poll(nullptr, 0, 1);
    now = entries_in("/proc/self/task");
  }
  return now;
}

namespace {

using SharedSegment = std::shared_ptr<Segment>;

SharedSegment make_segment(const SegmentShape& shape) {
  auto segment = Segment::anonymous(shape);
  EXPECT_TRUE(segment.ok());
  return std::make_shared<Segment>(std::move(*segment));
}

// Makes one segment per host, each with its bridge's rank and doorbell.
std::vector<SharedSegment> make_segments(const std::vector<int>& hosts, const SegmentShape& shape,
                                         bool staging) {
  std::vector<RankLocation> places;
  for (const int host : hosts)
    places.push_back({host, std::string(1, static_cast<char>('a' + host)), 1});
  std::vector<SharedSegment> segments;
  for (int host = 0; host <= *std::max_element(hosts.begin(), hosts.end()); ++host) {
    segments.push_back(make_segment(shape));
    segments.back()->set_places(places, host);
    const auto locals = segments.back()->ranks_on(host);
    EXPECT_TRUE(segments.back()->add_bridge(locals.front()).ok());
    if (!staging) continue;
    EXPECT_TRUE(segments.back()
                    ->add_staging(
                        HostsAllreduce::staging_bytes(locals.size(), StreamPlan(hosts).channels()))
                    .ok());
  }
  return segments;
}

std::vector<std::unique_ptr<Bridge>> start_bridges(const std::vector<SharedSegment>& segments,
                                                   bool encrypted) {
  std::vector<std::vector<HostSocket>> sockets(segments.size());
  for (std::size_t one = 0; one < segments.size(); ++one) {
    for (std::size_t other = 0; other < one; ++other) {
      ConnectionPair ends = connect_pair(encrypted);
      sockets[one].push_back({static_cast<int>(other), std::move(ends[0])});
      sockets[other].push_back({static_cast<int>(one), std::move(ends[1])});
    }
  }
  std::vector<std::unique_ptr<Bridge>> bridges;
  for (std::size_t host = 0; host < segments.size(); ++host) {
    auto bridge =
        Bridge::start(segments[host], std::move(sockets[host]), std::chrono::milliseconds(0));
    EXPECT_TRUE(bridge.ok());
    bridges.push_back(std::move(*bridge));
  }
  return bridges;
}

// Returns the streams of each rank.
std::vector<StreamLanes> make_streams(const std::vector<int>& hosts, bool encrypted) {
  const StreamPlan plan(hosts);
  std::vector<StreamLanes> streams(hosts.size());
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::vector<std::vector<StreamEnd>> ends(hosts.size());
    for (int channel = 0; channel < plan.channels(); ++channel) {
      for (int host = 0; host < plan.hosts(); ++host) {
        for (int other = 0; other < host; ++other) {
          // A key is for a few records, so that it is replaced while a test sends data.
          ConnectionPair pair = connect_pair(encrypted, true, 3);
          const int one = plan.server(channel, host);
          const int two = plan.server(channel, other);
          ends[static_cast<std::size_t>(one)].push_back({channel, other, two, std::move(pair[0])});
          ends[static_cast<std::size_t>(two)].push_back({channel, host, one, std::move(pair[1])});
        }
      }
    }
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      streams[rank][lane] = std::make_shared<SocketStreams>(plan, std::move(ends[rank]));
  }
  return streams;
}

void run_threads(int size, const std::function<SharedSegment(int rank)>& segment_of,
                 const std::vector<StreamLanes>& streams,
                 const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([=, &segment_of, &streams, &body] {
      Communicator communicator(segment_of(rank), rank, streams[static_cast<std::size_t>(rank)]);
      body(communicator);
      communicator.leave();
    });
  }
  for (auto& thread : threads) thread.join();
}

// All ranks on one host.
std::vector<int> on_one_host(int size) {
  return std::vector<int>(static_cast<std::size_t>(size), 0);
}

}  // namespace

void run_ranks(int size, const std::function<void(Communicator&)>& body) {
  run_ranks_in(size, body);
}

void run_ranks_in(const SegmentShape& shape, const std::function<void(Communicator&)>& body) {
  const SharedSegment segment = make_segment(shape);
  run_threads(
      shape.ranks, [&](int) { return segment; },
      std::vector<StreamLanes>(static_cast<std::size_t>(shape.ranks)), body);
}

void run_ranks_on(const std::vector<int>& hosts, const std::function<void(Communicator&)>& body) {
  run_ranks_on(hosts, SegmentShape::across_hosts(static_cast<int>(hosts.size())), true, body);
}

void run_ranks_on(const std::vector<int>& hosts, const SegmentShape& shape, bool streams,
                  const std::function<void(Communicator&)>& body) {
  run_ranks_on(hosts, shape, streams, false, body);
}

void run_ranks_on(const std::vector<int>& hosts, const SegmentShape& shape, bool streams,
                  bool encrypted, const std::function<void(Communicator&)>& body) {
  const auto segments = make_segments(hosts, shape, streams);
  auto bridges = start_bridges(segments, encrypted);
  const auto segment_of = [&](int rank) {
    return segments[static_cast<std::size_t>(hosts[static_cast<std::size_t>(rank)])];
  };
  run_threads(static_cast<int>(hosts.size()), segment_of,
              streams ? make_streams(hosts, encrypted) : std::vector<StreamLanes>(hosts.size()),
              body);
  // Each waits until the others know that it leaves, so all leave at the same time.
  std::vector<std::thread> leaving;
  for (auto& bridge : bridges) leaving.emplace_back([&] { bridge.reset(); });
  for (auto& thread : leaving) thread.join();
}

void run_ranks_everywhere(int size, const std::function<void(Communicator&)>& body) {
  run_ranks(size, body);
  if (size == 1) return;
  std::vector<int> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.push_back(rank % 2);
  run_ranks_on(hosts, body);
}

ReservedPort::ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t length = sizeof address;
  ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length);
  number_ = ntohs(address.sin_port);
}

std::string text_of(hvd_status status) {
  return status == HVD_OK ? "ok" : hvd_last_error();
}

std::string code_and_text_of(hvd_status status) {
  return status == HVD_OK ? "ok" : std::to_string(status) + " " + hvd_last_error();
}

std::string text_of(const Result<void>& outcome) {
  return outcome.ok() ? "ok" : outcome.error().message;
}

Child::Child(const std::function<void(const Report&)>& body) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  pipe_.reset(ends[0]);
  Fd write_end(ends[1]);
  pid_ = ::fork();
  if (pid_ != 0) return;
  pipe_.reset();
  body([&](const std::string& text) {
    const std::string line = text + '\n';
    if (::write(write_end.get(), line.data(), line.size()) < 0) ::_exit(99);
  });
  ::_exit(0);
}

Child::~Child() {
  if (!pipe_) return;  // moved from
  kill();
  wait();
}

std::optional<std::string> Child::line() {
  while (true) {
    if (const auto end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    char bytes[512];
    const ssize_t count = ::read(pipe_.get(), bytes, sizeof bytes);
    if (count <= 0) return std::nullopt;
    buffer_.append(bytes, static_cast<std::size_t>(count));
  }
}

void Child::kill() {
  signal(SIGKILL);
}

void Child::signal(int number) {
  if (pid_ > 0) ::kill(pid_, number);
}

int Child::wait() {
  int status = 0;
  if (pid_ > 0) ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

void die_and_leave_a_child(const Child::Report& report) {
  if (::fork() == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    while (true) {
      report("still here");
      ::poll(nullptr, 0, 10);
    }
  }
  ::kill(::getpid(), SIGKILL);
  ::_exit(99);  // not reached
}

Signal::Signal() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  read_end_.reset(ends[0]);
  write_end_.reset(ends[1]);
}

void Signal::notify() {
  EXPECT_EQ(::write(write_end_.get(), "!", 1), 1);
}

void Signal::await() {
  char byte;
  EXPECT_EQ(::read(read_end_.get(), &byte, 1), 1);
}

Job::Job(int size, const Body& body, const std::map<std::string, std::string>& variables)
    : Job(on_one_host(size), body, variables) {}

Job::Job(const std::vector<int>& hosts, const Body& body,
         const std::map<std::string, std::string>& variables)
    : memory_(static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end()) + 1)) {
  const bool several = memory_.size() > 1;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    children_.emplace_back([&](const Child::Report& report) {
      const auto set = [](const std::string& name, const std::string& value) {
        ::setenv(name.c_str(), value.c_str(), 1);
      };
      set("HVD_RANK", std::to_string(rank));
      set("HVD_SIZE", std::to_string(hosts.size()));
      set("MASTER_ADDR", "127.0.0.1");
      set("HVD_PORT", std::to_string(port_.number()));
      set("HVD_SHM_DIR", memory(hosts[rank]).path());
      if (several) set("HVD_HOSTNAME", std::string(1, static_cast<char>('a' + hosts[rank])));
      set("HVD_JOB_KEY", std::string(64, 'a'));
      // Tests that run at the same time may look for their ranks on the same ports.
      set("HVD_JOB_ID", std::to_string(::getppid()) + "." + std::to_string(port_.number()));
      for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK", "HVD_STATUS", "HVD_LOCAL_RANK"}) {
        ::unsetenv(name);
      }
      for (const auto& [name, value] : variables) set(name, value);
      body(static_cast<int>(rank), report);
    });
  }
}

}  // namespace libhvd::test
