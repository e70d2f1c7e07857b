// wire_up() with ranks as threads. A host is a separate folder for shared memory.
#include "bootstrap/wireup.hpp"

#include "bootstrap/rendezvous.hpp"
#include "bootstrap/wireup_messages.hpp"
#include "support.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

// The bootstrap of a rank that is a thread, over a real rendezvous.
class ThreadBootstrap final : public Bootstrap {
 public:
  ThreadBootstrap(int rank, int size, const test::ReservedPort& port) {
    info_.rank = rank;
    info_.size = size;
    RendezvousSpec spec;
    spec.rank = rank;
    spec.secret = {"job", std::vector<std::uint8_t>(32, 7), size};
    spec.address = "127.0.0.1";
    spec.ports = {static_cast<std::uint16_t>(port.number())};
    spec.timeout = std::chrono::minutes(1);
    auto opened = rank == 0 ? serve_rendezvous(spec) : join_rendezvous(spec);
    EXPECT_TRUE(opened.ok());
    rendezvous_ = std::move(*opened);
  }
  const RankInfo& info() const override { return info_; }
  Result<std::vector<std::string>> exchange(const std::string& own) override {
    return rendezvous_->exchange(own);
  }
  std::optional<Address> own_address() const override { return rendezvous_->own_address(); }

 private:
  RankInfo info_;
  std::unique_ptr<Rendezvous> rendezvous_;
};

using Hosts = std::vector<int>;
using Wireups = std::vector<std::unique_ptr<Result<Wireup>>>;

// Calls wire_up() for each rank in a thread, with a folder for each host. Returns the results.
Wireups wire_up_on(const Hosts& hosts, const std::map<std::string, std::string>& of_rank_1 = {},
                   std::chrono::seconds timeout = std::chrono::minutes(1)) {
  const test::ReservedPort port;
  std::deque<test::TemporaryFolder> folders(
      static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end()) + 1));
  Wireups wireups(hosts.size());
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      ThreadBootstrap bootstrap(static_cast<int>(rank), static_cast<int>(hosts.size()), port);
      std::map<std::string, std::string> variables;
      if (rank == 1) variables = of_rank_1;
      const auto host = static_cast<std::size_t>(hosts[rank]);
      variables["HVD_SHM_DIR"] = folders[host].path();
      variables["HVD_HOSTNAME"] = std::string(1, static_cast<char>('a' + hosts[rank]));
      WireupOptions options;
      options.timeout = timeout;
      wireups[rank] = std::make_unique<Result<Wireup>>(
          wire_up(bootstrap, test::make_environment(variables), options));
    });
  }
  for (auto& rank : ranks) rank.join();
  for (const auto& folder : folders) EXPECT_TRUE(folder.entries().empty());
  return wireups;
}

// Bridges wait for each other's goodbye, so all leave at the same time.
void leave(Wireups& wireups) {
  std::vector<std::thread> ranks;
  for (auto& wireup : wireups) {
    ranks.emplace_back([&] { (*wireup)->bridge.reset(); });
  }
  for (auto& rank : ranks) rank.join();
}

TEST(Wireup, GivesEachHostASegmentAndItsFirstRankTheBridge) {
  for (const Hosts& hosts : {Hosts{0, 0, 0}, Hosts{0, 0, 0, 1, 1, 2}, Hosts{0, 1, 0, 1, 0}}) {
    auto wireups = wire_up_on(hosts);
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      ASSERT_TRUE(wireups[rank]->ok()) << wireups[rank]->error().message;
      const Wireup& wireup = **wireups[rank];
      const bool several = *std::max_element(hosts.begin(), hosts.end()) > 0;
      const bool first = std::find(hosts.begin(), hosts.end(), hosts[rank]) - hosts.begin() ==
                         static_cast<std::ptrdiff_t>(rank);
      EXPECT_EQ(wireup.bridge != nullptr, several && first) << "rank " << rank;
      EXPECT_EQ(wireup.topology.node_rank, hosts[rank]);
      EXPECT_EQ(wireup.topology.local_size, std::count(hosts.begin(), hosts.end(), hosts[rank]));
      EXPECT_EQ(wireup.segment->ranks_on(hosts[rank]).size(),
                static_cast<std::size_t>(wireup.topology.local_size));
    }
    leave(wireups);
  }
}

TEST(Wireup, TreatsRanksWithDifferentNcclHostidsAsSeparateHosts) {
  auto wireups = wire_up_on({0, 0}, {{"NCCL_HOSTID", "another"}});
  for (std::size_t rank = 0; rank < wireups.size(); ++rank) {
    ASSERT_TRUE(wireups[rank]->ok()) << wireups[rank]->error().message;
    const Wireup& wireup = **wireups[rank];
    EXPECT_NE(wireup.bridge, nullptr) << "rank " << rank;
    EXPECT_EQ(wireup.topology.node_rank, static_cast<int>(rank));
    EXPECT_EQ(wireup.topology.local_size, 1);
  }
  leave(wireups);
}

TEST(Wireup, DifferentKeysFailOnEveryRankWithTheReason) {
  const auto wireups =
      wire_up_on({0, 1, 0}, {{"HVD_JOB_KEY", std::string(64, 'b')}}, std::chrono::seconds(1));
  for (const auto& wireup : wireups) {
    ASSERT_FALSE(wireup->ok());
    EXPECT_EQ(wireup->error().status, HVD_ERROR_TIMEOUT);
    EXPECT_TRUE(wireup->error().message.starts_with(
        "rank 0 on a: there was no connection from rank 1 on b to 127.0.0.1 port "))
        << wireup->error().message;
  }
}

TEST(Wireup, AMissingInterfaceFailsOnEveryRankWithAListOfTheOthers) {
  const auto wireups = wire_up_on({0, 1}, {{"HVD_INTERFACE", "nosuch0"}});
  for (const auto& wireup : wireups) {
    ASSERT_FALSE(wireup->ok());
    EXPECT_EQ(wireup->error().status, HVD_ERROR_ENVIRONMENT);
    EXPECT_TRUE(wireup->error().message.starts_with(
        "rank 1 on b: HVD_INTERFACE=\"nosuch0\" names no network interface of this host"))
        << wireup->error().message;
    EXPECT_NE(wireup->error().message.find("lo (127.0.0.1)"), std::string::npos);
  }
}

// The bootstrap of rank 0 of 2. The records of rank 1 are made up.
class BootstrapWithFakePeer final : public Bootstrap {
 public:
  explicit BootstrapWithFakePeer(int leader, std::string file)
      : leader_(leader), file_(std::move(file)) {
    info_.rank = 0;
    info_.size = 2;
  }
  const RankInfo& info() const override { return info_; }
  Result<std::vector<std::string>> exchange(const std::string& own) override {
    if (++exchanges_ == 1) {
      HVD_TRY(RankRecord theirs, decode_rank_record(own));
      theirs.info.rank = 1;
      theirs.file = file_;
      return std::vector{own, encode(theirs)};
    }
    EndpointRecord theirs;
    theirs.leader = leader_;
    return std::vector{own, encode(theirs)};
  }

 private:
  RankInfo info_;
  int leader_;
  std::string file_;
  int exchanges_ = 0;
};

TEST(Wireup, MalformedRecordsOfARankAreRefused) {
  for (const int leader : {-1, 2, 1'000'000'000, std::numeric_limits<int>::min()}) {
    const test::TemporaryFolder folder;
    BootstrapWithFakePeer bootstrap(leader, "none");
    const auto met = wire_up(bootstrap, test::make_environment({{"HVD_SHM_DIR", folder.path()}}));
    ASSERT_FALSE(met.ok()) << leader;
    EXPECT_NE(met.error().message.find("has sent a malformed endpoint record"), std::string::npos)
        << met.error().message;
  }
  const test::TemporaryFolder folder;
  BootstrapWithFakePeer bootstrap(0, "../../etc/passwd");
  EXPECT_FALSE(wire_up(bootstrap, test::make_environment({{"HVD_SHM_DIR", folder.path()}})).ok());
}

}  // namespace
}  // namespace libhvd
