// The rendezvous over real sockets, with ranks as threads.
#include "bootstrap/rendezvous.hpp"

#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/rendezvous_frame.hpp"
#include "common/net/tcp.hpp"
#include "support.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

namespace libhvd {
namespace {

RendezvousSpec make_spec(const test::ReservedPort& port, int rank, int size,
                         bool encrypted = false) {
  RendezvousSpec spec;
  spec.rank = rank;
  spec.secret = {"job", std::vector<std::uint8_t>(32, 7), size, {}, encrypted};
  spec.address = "127.0.0.1";
  spec.ports = {static_cast<std::uint16_t>(port.number())};
  spec.timeout = std::chrono::minutes(1);
  return spec;
}

Result<std::unique_ptr<Rendezvous>> open_rendezvous(const RendezvousSpec& spec) {
  return spec.rank == 0 ? serve_rendezvous(spec) : join_rendezvous(spec);
}

// Exchanges twice, and expects the blobs of all ranks.
void expect_exchange(const RendezvousSpec& spec) {
  auto rendezvous = open_rendezvous(spec);
  ASSERT_TRUE(rendezvous.ok()) << rendezvous.error().message;
  for (const std::string round : {"first", "second"}) {
    // Lengths from 0 to much more than a socket takes at once.
    const auto blob = [&](int rank) {
      return std::string(static_cast<std::size_t>(rank) * 15000, 'x') + round;
    };
    const auto blobs = (*rendezvous)->exchange(blob(spec.rank));
    ASSERT_TRUE(blobs.ok()) << blobs.error().message;
    ASSERT_EQ(blobs->size(), static_cast<std::size_t>(spec.secret.size));
    for (int rank = 0; rank < spec.secret.size; ++rank) {
      EXPECT_EQ((*blobs)[static_cast<std::size_t>(rank)], blob(rank));
    }
  }
}

TEST(Rendezvous, DeliversEveryBlobToEveryRank) {
  constexpr int kSize = 5;
  for (const bool encrypted : {false, true}) {
    const test::ReservedPort port;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kSize; ++rank) {
      ranks.emplace_back([&, rank] { expect_exchange(make_spec(port, rank, kSize, encrypted)); });
    }
    for (auto& rank : ranks) rank.join();
  }
}

// Without a secret no launcher has started the ranks, so no launcher says what they wait for.
TEST(Rendezvous, ARankWithoutALauncherSaysForWhomItWaits) {
  const test::ReservedPort port;
  auto first = make_spec(port, 0, 2);
  auto second = make_spec(port, 1, 2);
  for (RendezvousSpec* spec : {&first, &second}) {
    spec->secret.key.clear();
    spec->note_after = std::chrono::milliseconds(1);
  }
  testing::internal::CaptureStderr();
  first.timeout = second.timeout = std::chrono::milliseconds(20);
  EXPECT_FALSE(open_rendezvous(first).ok());
  EXPECT_FALSE(open_rendezvous(second).ok());
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string at = " at 127.0.0.1 port " + std::to_string(port.number());
  EXPECT_NE(said.find("hvd: rank 0 waits for rank 1" + at), std::string::npos) << said;
  EXPECT_NE(said.find("hvd: rank 1 waits for rank 0" + at), std::string::npos) << said;
}

// Rank 2 encrypts and the others do not, or the other way round.
TEST(Rendezvous, DifferentEncryptionOfOneRankFailsOnEveryRank) {
  for (const bool encrypted : {false, true}) {
    const test::ReservedPort port;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        const bool own = rank == 2 ? !encrypted : encrypted;
        auto rendezvous = open_rendezvous(make_spec(port, rank, 3, own));
        ASSERT_EQ(rendezvous.ok(), rank != 2);
        const Error error = rank == 2 ? rendezvous.error() : (*rendezvous)->exchange("me").error();
        const std::string wanted = encrypted ? "HVD_DATA_TLS is 1 on rank 0 and 0 on rank 2"
                                             : "HVD_DATA_TLS is 1 on rank 2 and 0 on rank 0";
        EXPECT_EQ(error.message, wanted + ": give all ranks the same");
      });
    }
    for (auto& rank : ranks) rank.join();
  }
}

TEST(Rendezvous, TriesThePortsInOrder) {
  const test::ReservedPort taken;
  const test::ReservedPort port;
  // A foreign service. The kernel accepts connections for it, but it sends nothing.
  const auto address =
      resolve("127.0.0.1")->front().with_port(static_cast<std::uint16_t>(taken.number()));
  const auto foreign = listen_on(address);
  ASSERT_TRUE(foreign.ok()) << foreign.error().message;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      RendezvousSpec spec = make_spec(port, rank, 2);
      spec.ports.insert(spec.ports.begin(), static_cast<std::uint16_t>(taken.number()));
      expect_exchange(spec);
    });
  }
  for (auto& rank : ranks) rank.join();
}

// Foreign listeners. The kernel accepts connections for them, but they send nothing. One after the
// other, with three seconds for each, they would take longer than the timeout.
TEST(Rendezvous, SucceedsDespiteManySilentPorts) {
  constexpr std::size_t kSilent = 40;
  const test::ReservedPort port;
  std::vector<std::unique_ptr<test::ReservedPort>> taken;
  std::vector<Fd> silent;
  std::vector<std::uint16_t> ports;
  while (ports.size() < kSilent) {
    taken.push_back(std::make_unique<test::ReservedPort>());
    ports.push_back(static_cast<std::uint16_t>(taken.back()->number()));
    auto listener = listen_on(resolve("127.0.0.1")->front().with_port(ports.back()));
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    silent.push_back(std::move(*listener));
  }
  ports.push_back(static_cast<std::uint16_t>(port.number()));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      RendezvousSpec spec = make_spec(port, rank, 2);
      spec.ports = ports;
      expect_exchange(spec);
    });
  }
  for (auto& rank : ranks) rank.join();
}

// One server begins an answer and stops, another one answers with garbage.
TEST(Rendezvous, SucceedsDespiteHalfAnAnswer) {
  const test::ReservedPort half;
  const test::ReservedPort garbage;
  const test::ReservedPort port;
  std::vector<Fd> listeners;
  for (const auto* reserved : {&half, &garbage}) {
    auto listener = listen_on(
        resolve("127.0.0.1")->front().with_port(static_cast<std::uint16_t>(reserved->number())));
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    listeners.push_back(std::move(*listener));
  }
  std::atomic<bool> over = false;
  std::thread foreign([&] {
    std::vector<Fd> accepted;
    while (!over) {
      for (std::size_t i = 0; i < listeners.size(); ++i) {
        Fd connection = accept_tcp(listeners[i].get());
        if (!connection) continue;
        const std::vector<std::uint8_t> bytes(i == 0 ? 1 : kChallengeBytes, 0xee);
        (void)send_all(connection, bytes, Deadline(std::chrono::minutes(1))).ok();
        accepted.push_back(std::move(connection));
      }
      pollfd entries[] = {{listeners[0].get(), POLLIN, 0}, {listeners[1].get(), POLLIN, 0}};
      ::poll(entries, 2, 20);
    }
  });
  std::thread host([&] { expect_exchange(make_spec(port, 0, 2)); });
  RendezvousSpec spec = make_spec(port, 1, 2);
  for (const auto* reserved : {&garbage, &half})
    spec.ports.insert(spec.ports.begin(), static_cast<std::uint16_t>(reserved->number()));
  expect_exchange(spec);
  host.join();
  over = true;
  foreign.join();
}

// Strangers connect, and send nothing or garbage of different lengths.
TEST(Rendezvous, SucceedsDespiteStrangers) {
  const test::ReservedPort port;
  std::thread host([&] { expect_exchange(make_spec(port, 0, 2)); });
  const auto address =
      resolve("127.0.0.1")->front().with_port(static_cast<std::uint16_t>(port.number()));
  const Deadline deadline(std::chrono::minutes(1));
  std::vector<Fd> strangers;
  while (strangers.size() < 30) {
    auto stranger = connect_to(address, deadline);
    if (!stranger.ok()) continue;  // rank 0 does not listen yet
    const std::vector<std::uint8_t> garbage(strangers.size() * 10, 0xee);
    (void)send_all(*stranger, garbage, deadline).ok();
    strangers.push_back(std::move(*stranger));
  }
  expect_exchange(make_spec(port, 1, 2));
  host.join();
}

TEST(Rendezvous, NamesARankThatDoesNotConnect) {
  const test::ReservedPort port;
  RendezvousSpec spec = make_spec(port, 0, 2);
  spec.timeout = std::chrono::milliseconds(50);
  const auto rendezvous = serve_rendezvous(spec);
  ASSERT_FALSE(rendezvous.ok());
  EXPECT_EQ(rendezvous.error().status, HVD_ERROR_TIMEOUT);
  EXPECT_NE(rendezvous.error().message.find("rank 1 did not come"), std::string::npos);
}

// Rank 0 knows which rank is late. So the others wait for its answer, even after their own timeout.
TEST(Rendezvous, OtherRanksNameTheLateRankToo) {
  const test::ReservedPort port;
  std::thread host([&] {
    RendezvousSpec spec = make_spec(port, 0, 3);
    spec.timeout = std::chrono::milliseconds(1500);
    EXPECT_FALSE(serve_rendezvous(spec).ok());
  });
  RendezvousSpec spec = make_spec(port, 2, 3);
  spec.timeout = std::chrono::milliseconds(200);
  auto rendezvous = join_rendezvous(spec);
  for (int tries = 1; tries < 7 && !rendezvous.ok(); ++tries) rendezvous = join_rendezvous(spec);
  const auto blobs = rendezvous.ok() ? (*rendezvous)->exchange("me") : rendezvous.error();
  host.join();
  ASSERT_FALSE(blobs.ok());
  EXPECT_NE(blobs.error().message.find("rank 1 did not come to rank 0"), std::string::npos)
      << blobs.error().message;
}

// Rank 0 continues to wait for the true rank 1. The timeout grows, because a busy machine answers
// late.
TEST(Rendezvous, RefusesARankWithAnotherKeyAndGivesTheReason) {
  const test::ReservedPort port;
  std::thread host([&] { expect_exchange(make_spec(port, 0, 2)); });
  RendezvousSpec wrong = make_spec(port, 1, 2);
  wrong.secret.key[0] ^= 1;
  std::string message;
  for (const int milliseconds : {200, 1000, 5000, 25000}) {
    wrong.timeout = std::chrono::milliseconds(milliseconds);
    const auto rendezvous = join_rendezvous(wrong);
    EXPECT_FALSE(rendezvous.ok());
    message = rendezvous.ok() ? "" : rendezvous.error().message;
    if (message.find("the same secret") != std::string::npos) break;
  }
  EXPECT_NE(message.find("does not hold the same secret"), std::string::npos) << message;
  expect_exchange(make_spec(port, 1, 2));
  host.join();
}

TEST(Rendezvous, EveryRankNamesARankThatEnds) {
  constexpr int kSize = 4;
  const test::ReservedPort port;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] {
      auto rendezvous = open_rendezvous(make_spec(port, rank, kSize));
      ASSERT_TRUE(rendezvous.ok()) << rendezvous.error().message;
      if (rank == 2) return;  // its connection ends
      const auto blobs = (*rendezvous)->exchange("me");
      ASSERT_FALSE(blobs.ok());
      EXPECT_EQ(blobs.error().status, HVD_ERROR_PEER);
      EXPECT_NE(blobs.error().message.find("rank 2 is gone"), std::string::npos)
          << blobs.error().message;
    });
  }
  for (auto& rank : ranks) rank.join();
}

// --- A relay in between --------------------------------------------------------------------------

Address address_of(const std::string& host, const test::ReservedPort& port) {
  return resolve(host)->front().with_port(static_cast<std::uint16_t>(port.number()));
}

// Listens at one address and relays between its clients and another address, until it is destroyed.
class Relay {
 public:
  using Change = std::function<void(std::string& bytes, bool to_server)>;

  Relay(const Address& here, const Address& there, Change change)
      : listener_(std::move(*listen_on(here))), there_(there), change_(std::move(change)) {
    thread_ = std::thread([this] {
      while (!stop_) {
        pollfd entry{listener_.get(), POLLIN, 0};
        if (::poll(&entry, 1, 10) <= 0) continue;
        const Fd client = accept_tcp(listener_.get());
        if (client) carry(client);
      }
    });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
  }

 private:
  void carry(const Fd& client) {
    auto host = connect_to(there_, Deadline(std::chrono::seconds(1)));
    while (host.ok() && !stop_)
      if (!pass(client, *host, true) || !pass(*host, client, false)) return;
  }
  bool pass(const Fd& from, const Fd& to, bool to_server) {
    pollfd entry{from.get(), POLLIN, 0};
    if (::poll(&entry, 1, 1) <= 0) return true;
    std::array<std::uint8_t, 65536> buffer;
    const auto count = receive_some(from, buffer);
    if (!count.ok()) return false;
    std::string bytes(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*count));
    change_(bytes, to_server);
    return send_all(to, {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
                    Deadline(std::chrono::seconds(10)))
        .ok();
  }

  Fd listener_;
  Address there_;
  Change change_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// A foreign process has the first port. It relays to the second port, where rank 0 listens.
TEST(Rendezvous, RefusesARelayFromAnotherPort) {
  const test::ReservedPort first;
  const test::ReservedPort second;
  std::string seen;
  const Relay relay(address_of("127.0.0.1", first), address_of("127.0.0.1", second),
                    [&](std::string& bytes, bool) { seen += bytes; });
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      RendezvousSpec spec = make_spec(second, rank, 2);
      spec.ports.insert(spec.ports.begin(), static_cast<std::uint16_t>(first.number()));
      expect_exchange(spec);
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(seen.find("first"), std::string::npos) << "the relay has seen what ranks exchange";
}

// A relay can read what ranks exchange without TLS, and nothing of it with TLS.
TEST(Rendezvous, IsReadableForARelayOnlyWithoutTls) {
  for (const bool encrypted : {false, true}) {
    const test::ReservedPort port;
    std::string seen;
    {
      const Relay relay(address_of("127.0.0.2", port), address_of("127.0.0.1", port),
                        [&](std::string& bytes, bool) { seen += bytes; });
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < 2; ++rank) {
        ranks.emplace_back([&, rank] {
          RendezvousSpec spec = make_spec(port, rank, 2, encrypted);
          if (rank == 1) spec.address = "127.0.0.2";
          auto rendezvous = open_rendezvous(spec);
          ASSERT_TRUE(rendezvous.ok()) << rendezvous.error().message;
          const auto blobs = (*rendezvous)->exchange("address of rank " + std::to_string(rank));
          ASSERT_TRUE(blobs.ok()) << blobs.error().message;
        });
      }
      for (auto& rank : ranks) rank.join();
    }
    EXPECT_NE(seen.find("hvdhail"), std::string::npos) << "the relay has carried nothing";
    for (const char* marker : {"address of rank 0", "address of rank 1"})
      EXPECT_EQ(seen.find(marker) == std::string::npos, encrypted) << marker;
  }
}

// If a port is taken on one address, ranks that try this address would reach another process.
TEST(Rendezvous, SkipsAPortThatIsTakenOnOneAddress) {
  const test::ReservedPort first;
  const test::ReservedPort second;
  const auto foreign = listen_on(address_of("127.0.0.2", first));
  ASSERT_TRUE(foreign.ok()) << foreign.error().message;
  std::thread host([&] {
    RendezvousSpec spec = make_spec(second, 0, 2);
    spec.interface = "lo";
    spec.address = "127.0.0.2";
    spec.ports.insert(spec.ports.begin(), static_cast<std::uint16_t>(first.number()));
    expect_exchange(spec);
  });
  RendezvousSpec spec = make_spec(second, 1, 2);
  expect_exchange(spec);
  host.join();
}

// The relay has the same port, like a machine in between, and changes what it carries.
TEST(Rendezvous, DetectsDataThatARelayHasChanged) {
  for (const bool to_server : {true, false}) {
    const test::ReservedPort port;
    const Relay relay(address_of("127.0.0.2", port), address_of("127.0.0.1", port),
                      [&](std::string& bytes, bool direction) {
                        const auto at = bytes.find("address of rank");
                        if (direction == to_server && at != std::string::npos) bytes[at + 16] ^= 1;
                      });
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        RendezvousSpec spec = make_spec(port, rank, 2);
        if (rank == 1) spec.address = "127.0.0.2";
        auto rendezvous = open_rendezvous(spec);
        ASSERT_TRUE(rendezvous.ok()) << rendezvous.error().message;
        const auto blobs = (*rendezvous)->exchange("address of rank " + std::to_string(rank));
        if (rank == 0 && !to_server) return;  // only its own reply is changed
        ASSERT_FALSE(blobs.ok()) << "rank " << rank << " has accepted changed data";
        EXPECT_NE(blobs.error().message.find("changed on its way"), std::string::npos)
            << blobs.error().message;
      });
    }
    for (auto& rank : ranks) rank.join();
  }
}

struct Pair {
  Connection a;
  Connection b;
};

Pair connected_pair() {
  auto [a, b] = test::make_socket_pair(SOCK_NONBLOCK);
  return {std::move(a), std::move(b)};
}

Result<std::string> received(const Connection& socket, FrameKey& key) {
  return receive_frame(socket, key, 1000, Deadline(std::chrono::seconds(10)));
}

TEST(Frames, RepeatedMissingAndReflectedOnesAreRefused) {
  const Deadline deadline(std::chrono::seconds(10));
  const FrameKey key(Digest{7});
  for (const std::string fault : {"none", "repeated", "left out", "of the other direction"}) {
    const Pair pair = connected_pair();
    FrameKey sender = key;
    FrameKey receiver = fault == "of the other direction" ? FrameKey(Digest{8}) : key;
    FrameKey again = key;
    if (fault == "left out") (void)sender.authenticate(1, {});
    ASSERT_TRUE(send_frame(pair.a, sender, Payload("one"), deadline).ok());
    ASSERT_TRUE(
        send_frame(pair.a, fault == "repeated" ? again : sender, Payload("two"), deadline).ok());
    const auto first = received(pair.b, receiver);
    EXPECT_EQ(first.ok(), fault == "none" || fault == "repeated") << fault;
    if (!first.ok()) continue;
    EXPECT_EQ(*first, "one");
    EXPECT_EQ(received(pair.b, receiver).ok(), fault == "none") << fault;
  }
}

// More strangers connect than there are places, and stop after a few bytes. A client whose hello
// proves the secret keeps its place.
TEST(AuthenticatedAcceptor, KeepsAClientWithTheSecretWhenStrangersTakeAllPlaces) {
  const test::ReservedPort port;
  const Address address = address_of("127.0.0.1", port);
  const JobSecret secret{"job", std::vector<std::uint8_t>(32, 7), 3};
  const Deadline deadline(std::chrono::minutes(1));
  std::vector<Fd> listeners;
  listeners.push_back(std::move(*listen_on(address)));
  AuthenticatedAcceptor acceptor(std::move(listeners), secret);
  const auto turn = [&] { return acceptor.next(Deadline(std::chrono::milliseconds(50))); };

  auto slow = connect_to(address, deadline);
  ASSERT_TRUE(slow.ok());
  const HelloBytes hello =
      make_hello(secret, 1, static_cast<std::uint16_t>(port.number()), HandshakeNonce{1});
  ASSERT_TRUE(send_all(*slow, hello, deadline).ok());
  ASSERT_TRUE(turn().ok());

  std::vector<Fd> strangers;
  const std::vector<std::uint8_t> beginning(10, 0x68);
  for (int i = 0; i < 600; ++i) {
    auto stranger = connect_to(address, deadline);
    ASSERT_TRUE(stranger.ok());
    if (i % 2 == 0) (void)send_all(*stranger, beginning, deadline).ok();
    strangers.push_back(std::move(*stranger));
    if (i % 100 == 99) {
      ASSERT_TRUE(turn().ok());
    }
  }
  ChallengeBytes challenge{};
  ASSERT_TRUE(receive_all(*slow, challenge, deadline).ok());
  const Answer answer = answer_challenge(secret, hello, challenge);
  ASSERT_TRUE(answer.proof) << answer.refusal;
  ASSERT_TRUE(send_all(*slow, *answer.proof, deadline).ok());
  const auto client = acceptor.next(deadline);
  ASSERT_TRUE(client.ok() && *client) << "the client has lost its place";
  EXPECT_EQ((*client)->rank, 1);
}

}  // namespace
}  // namespace libhvd
