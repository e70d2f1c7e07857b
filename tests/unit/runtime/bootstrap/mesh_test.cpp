// Hosts that connect to each other over loopback while strangers connect too. Each host is a
// thread.
#include "bootstrap/mesh.hpp"

#include "bootstrap/authenticated_acceptor.hpp"
#include "support.hpp"

#include <array>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

constexpr int kHosts = 3;

Address loopback() {
  return resolve("127.0.0.1")->front();
}

JobSecret make_secret() {
  return {"job", std::vector<std::uint8_t>(32, 7), 6};
}

struct Mesh {
  std::vector<HostListener> host_listeners;
  std::vector<HostEntry> hosts;
  std::vector<std::optional<int>> unreached = std::vector<std::optional<int>>(kHosts);
};

// Makes three hosts, whose leaders are ranks 0, 2 and 4.
Mesh make_mesh() {
  Mesh mesh;
  for (int host = 0; host < kHosts; ++host) {
    auto host_listener = HostListener::open("", loopback());
    EXPECT_TRUE(host_listener.ok());
    // The listener is bound to single addresses, never to all. With loopback it listens on the
    // other interfaces too, because the machine may be reached under its name.
    for (const Address& address : host_listener->addresses()) {
      EXPECT_NE(address.host(), "0.0.0.0");
      EXPECT_NE(address.host(), "::");
      EXPECT_NE(address.port(), 0);
    }
    mesh.hosts.push_back({host * 2,
                          std::string(1, static_cast<char>('a' + host)),
                          {host_listener->addresses().front()}});
    mesh.host_listeners.push_back(std::move(*host_listener));
  }
  return mesh;
}

std::vector<Result<std::vector<HostSocket>>> join_all(
    Mesh& mesh, const std::function<JobSecret(int host)>& secret_of,
    std::chrono::milliseconds timeout) {
  std::vector<Result<std::vector<HostSocket>>> joined;
  for (int host = 0; host < kHosts; ++host) joined.emplace_back(std::vector<HostSocket>());
  std::vector<std::thread> threads;
  for (int host = 0; host < kHosts; ++host) {
    threads.emplace_back([&, host] {
      const auto index = static_cast<std::size_t>(host);
      joined[index] = join_hosts(std::move(mesh.host_listeners[index]), mesh.hosts, host,
                                 secret_of(host), Deadline(timeout), &mesh.unreached[index]);
    });
  }
  for (auto& thread : threads) thread.join();
  return joined;
}

// Sends each host's index to each other host, and expects it there.
void expect_connected(const std::vector<Result<std::vector<HostSocket>>>& joined) {
  const Deadline deadline(std::chrono::minutes(1));
  for (std::size_t host = 0; host < joined.size(); ++host) {
    ASSERT_TRUE(joined[host].ok()) << joined[host].error().message;
    ASSERT_EQ(joined[host]->size(), joined.size() - 1);
    const auto own = static_cast<std::uint8_t>(host);
    for (const HostSocket& entry : *joined[host]) {
      ASSERT_TRUE(send_all(entry.socket, {&own, 1}, deadline).ok());
    }
  }
  for (const auto& sockets : joined) {
    for (const HostSocket& entry : *sockets) {
      std::uint8_t heard = 255;
      ASSERT_TRUE(receive_all(entry.socket, {&heard, 1}, deadline).ok());
      EXPECT_EQ(heard, entry.host);
    }
  }
}

TEST(JoinHosts, ConnectsAllPairsDespiteStrangers) {
  Mesh mesh = make_mesh();
  const Deadline deadline(std::chrono::minutes(1));
  std::vector<Fd> strangers;
  for (int i = 0; i < 60; ++i) {
    const auto host = static_cast<std::size_t>(i % kHosts);
    auto stranger = connect_to(mesh.hosts[host].addresses.front(), deadline);
    ASSERT_TRUE(stranger.ok());
    const std::vector<std::uint8_t> garbage(static_cast<std::size_t>(i) * 5, 0xee);
    ASSERT_TRUE(send_all(*stranger, garbage, deadline).ok());
    strangers.push_back(std::move(*stranger));
  }
  const auto joined = join_all(
      mesh, [](int) { return make_secret(); }, std::chrono::minutes(1));
  expect_connected(joined);
}

TEST(JoinHosts, ConnectsAllPairsOverTls) {
  Mesh mesh = make_mesh();
  const auto joined = join_all(
      mesh,
      [](int) {
        JobSecret secret = make_secret();
        secret.encrypted = true;
        return secret;
      },
      std::chrono::minutes(1));
  expect_connected(joined);
  // Data that is sent without TLS is detected.
  const std::vector<std::uint8_t> clear(100, 'x');
  const Deadline deadline(std::chrono::minutes(1));
  const Connection& from = (*joined[0])[0].socket;  // to host 1
  const Connection& to = (*joined[1])[0].socket;    // to host 0
  ASSERT_TRUE(send_all(from.socket(), clear, deadline).ok());
  std::array<std::uint8_t, 100> heard{};
  const auto received = receive_all(to, heard, deadline);
  ASSERT_FALSE(received.ok());
  EXPECT_EQ(received.error().message, "what it sent was changed on its way");
}

// A foreign process connects first. It knows everything but the secret.
TEST(JoinHosts, RefusesAProcessWithoutTheSecret) {
  Mesh mesh = make_mesh();
  JobSecret wrong = make_secret();
  wrong.job_id += " at rank 0";
  wrong.key[5] ^= 1;
  std::string refusal;
  std::promise<void> refused;
  std::thread foreign([&] {
    const auto socket = connect_authenticated(mesh.hosts[0].addresses.front(), wrong, 2,
                                              Deadline(std::chrono::minutes(1)), refusal);
    EXPECT_FALSE(socket.ok());
    refused.set_value();
  });
  const auto joined = join_all(
      mesh,
      [&](int host) {
        if (host == kHosts - 1) refused.get_future().wait();  // until then the listeners stay open
        return make_secret();
      },
      std::chrono::minutes(1));
  foreign.join();
  expect_connected(joined);
  EXPECT_NE(refusal.find("does not hold the same secret"), std::string::npos) << refusal;
}

// Host 2 has another secret. The timeout grows, because a busy machine connects the others late.
TEST(JoinHosts, NamesTheHostThatDoesNotConnect) {
  Mesh mesh;
  std::vector<Result<std::vector<HostSocket>>> joined;
  for (const int milliseconds : {300, 1500, 7500, 30000}) {
    mesh = make_mesh();
    joined = join_all(
        mesh,
        [](int host) {
          JobSecret secret = make_secret();
          if (host == 2) secret.key[0] ^= 1;
          return secret;
        },
        std::chrono::milliseconds(milliseconds));
    const auto has = [&](std::size_t host, const char* text) {
      return !joined[host].ok() && joined[host].error().message.find(text) != std::string::npos;
    };
    if (has(0, "connection from rank 4 on c") && has(2, "does not hold the same secret")) break;
  }
  EXPECT_EQ(mesh.unreached[0], 4);
  EXPECT_EQ(mesh.unreached[2], 0);
  ASSERT_FALSE(joined[0].ok());
  EXPECT_EQ(joined[0].error().message, "there was no connection from rank 4 on c to " +
                                           mesh.hosts[0].addresses[0].text() +
                                           ". HVD_INTERFACE chooses the network between hosts");
  ASSERT_FALSE(joined[2].ok());
  EXPECT_TRUE(joined[2].error().message.starts_with("cannot reach rank 0 on a at 127.0.0.1 port "))
      << joined[2].error().message;
  EXPECT_NE(joined[2].error().message.find("does not hold the same secret"), std::string::npos);
}

}  // namespace
}  // namespace libhvd
