#include "agent/master_probe.hpp"

#include "common/net/tcp.hpp"
#include "common/variables.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kShort{50};

LaunchMessage job_at(const std::string& address, int port) {
  LaunchMessage job;
  job.hosts = {{"n1", {0}, address}, {"n2", {1}, "n2"}};
  job.ranks.resize(1);
  job.ranks[0].environment = {{"MASTER_ADDR", address}, {HVD_ENV_PORT, std::to_string(port)}};
  return job;
}

// A socket at a port of this machine that listens, if `listens`.
struct Bound {
  explicit Bound(bool listens) : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
    if (listens) {
      EXPECT_EQ(::listen(socket.get(), 0), 0);
    }
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
    port = ntohs(any.sin_port);
  }
  common::Fd socket;
  int port = 0;
};

// Returns what the probe says; "" if it is content.
std::string probe(const LaunchMessage& job,
                  const std::map<std::string, common::Address>& known = {}) {
  std::string said;
  EventLoop loop;
  MasterProbe probe(loop, [&](const std::string& text) { said += text; });
  probe.start(job, known, kShort);
  loop.run();
  return said;
}

TEST(MasterProbe, IsContentWithAHostThatAcceptsOrRefuses) {
  const Bound held(false);
  const Bound listening(true);
  EXPECT_EQ(probe(job_at("127.0.0.1", held.port)), "");
  EXPECT_EQ(probe(job_at("127.0.0.1", listening.port)), "");
}

TEST(MasterProbe, NamesTheAddressThatDoesNotAnswer) {
  const Bound listening(true);
  const auto address =
      common::parse_address("127.0.0.1", static_cast<std::uint16_t>(listening.port)).value();
  // The kernel drops what its queue for this listener has no room for.
  std::vector<common::Fd> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(common::make_tcp_socket(address).value());
    common::connect_tcp(waiting.back().get(), address);
  }
  EXPECT_NE(probe(job_at("127.0.0.1", listening.port))
                .find("cannot connect to 127.0.0.1, which is MASTER_ADDR: no answer"),
            std::string::npos);
  EXPECT_NE(probe(job_at("head", listening.port), {{"head", address}})
                .find("cannot connect to head (127.0.0.1), which is MASTER_ADDR"),
            std::string::npos);
}

TEST(MasterProbe, DoesNotTryWhatItDoesNotKnow) {
  EXPECT_EQ(probe(job_at("head", 29500)), "");
  auto one_host = job_at("127.0.0.1", 1);
  one_host.hosts.resize(1);
  EXPECT_EQ(probe(one_host), "");
}

}  // namespace
}  // namespace hvdrun
