// The rendezvous over real sockets, ranks as threads.
#include "bootstrap/rendezvous.hpp"

#include "support.hpp"

#include <mutex>
#include <thread>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

RendezvousSpec make_spec(const test::ReservedPort& port, int rank, int size) {
  RendezvousSpec spec;
  spec.rank = rank;
  spec.secret = {"job", std::vector<std::uint8_t>(32, 7), size};
  spec.address = "127.0.0.1";
  spec.ports = {static_cast<std::uint16_t>(port.number())};
  spec.patience = std::chrono::minutes(1);
  return spec;
}

Result<std::unique_ptr<Rendezvous>> open_rendezvous(const RendezvousSpec& spec) {
  return spec.rank == 0 ? host_rendezvous(spec) : join_rendezvous(spec);
}

// Every rank exchanges twice; what it gets must be everyone's.
void expect_exchange(const RendezvousSpec& spec) {
  auto rendezvous = open_rendezvous(spec);
  ASSERT_TRUE(rendezvous.ok()) << rendezvous.error().message;
  for (const std::string round : {"first", "second"}) {
    // Lengths from nothing to much more than a socket takes at once.
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

TEST(Rendezvous, BringsAllBlobsToAll) {
  constexpr int kSize = 5;
  const test::ReservedPort port;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] { expect_exchange(make_spec(port, rank, kSize)); });
  }
  for (auto& rank : ranks) rank.join();
}

TEST(Rendezvous, TriesThePortsInOrder) {
  const test::ReservedPort taken;
  const test::ReservedPort port;
  // Somebody else's service, which accepts by its backlog and says nothing.
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

// Connections that send garbage, send half a message, or nothing at all.
TEST(Rendezvous, StrangersHoldNobodyUp) {
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

TEST(Rendezvous, ARankWithAnotherKeyIsLeftOutAndIsToldWhy) {
  const test::ReservedPort port;
  std::thread host([&] {
    RendezvousSpec spec = make_spec(port, 0, 2);
    spec.patience = std::chrono::seconds(2);
    const auto rendezvous = host_rendezvous(spec);
    ASSERT_FALSE(rendezvous.ok());
    EXPECT_EQ(rendezvous.error().status, HVD_ERROR_TIMEOUT);
    EXPECT_NE(rendezvous.error().message.find("rank 1 did not come"), std::string::npos);
  });
  RendezvousSpec spec = make_spec(port, 1, 2);
  spec.secret.key[0] ^= 1;
  spec.patience = std::chrono::seconds(1);
  const auto rendezvous = join_rendezvous(spec);
  ASSERT_FALSE(rendezvous.ok());
  EXPECT_NE(rendezvous.error().message.find("does not hold the same secret"), std::string::npos)
      << rendezvous.error().message;
  host.join();
}

TEST(Rendezvous, ARankThatEndsIsNamedToAll) {
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

}  // namespace
}  // namespace libhvd
