// What all ranks are told when one cannot map the segment; the bootstrap is a double that says what
// the others would.
#include "api/meeting.hpp"

#include "bootstrap/rendezvous.hpp"
#include "support.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

// Ranks as threads over a real rendezvous. `change` may alter the blobs that a rank gets.
class ThreadBootstrap final : public Bootstrap {
 public:
  using Change = std::function<void(std::vector<std::string>&)>;
  ThreadBootstrap(int rank, int size, const test::ReservedPort& port, Change change)
      : change_(std::move(change)) {
    info_.rank = rank;
    info_.size = size;
    RendezvousSpec spec;
    spec.rank = rank;
    spec.secret = {"job", std::vector<std::uint8_t>(32, 7), size};
    spec.address = "127.0.0.1";
    spec.ports = {static_cast<std::uint16_t>(port.number())};
    spec.patience = std::chrono::minutes(1);
    auto opened = rank == 0 ? host_rendezvous(spec) : join_rendezvous(spec);
    EXPECT_TRUE(opened.ok());
    rendezvous_ = std::move(*opened);
  }
  const RankInfo& info() const override { return info_; }
  Result<std::vector<std::string>> exchange(const std::string& own) override {
    auto blobs = rendezvous_->exchange(own);
    if (blobs.ok()) change_(*blobs);
    return blobs;
  }

 private:
  RankInfo info_;
  std::unique_ptr<Rendezvous> rendezvous_;
  Change change_;
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

TEST(Meet, NamesTheRanksThatAreOnOtherHosts) {
  constexpr int kSize = 4;
  const test::ReservedPort port;
  const test::TemporaryFolder folder;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] {
      // Ranks 2 and 3 look into a folder that rank 0's file is not in, as on another host.
      const bool elsewhere = rank >= 2;
      ThreadBootstrap bootstrap(rank, kSize, port, [&](std::vector<std::string>& blobs) {
        if (elsewhere) replace_all(blobs[0], "/hvd-job-", "/HVD-job-");
      });
      const auto meeting =
          meet(bootstrap, test::make_environment({{"HVD_SHM_DIR", folder.path()},
                                                  {"HVD_HOSTNAME", elsewhere ? "b" : "a"}}));
      ASSERT_FALSE(meeting.ok());
      EXPECT_EQ(meeting.error().status, HVD_ERROR_UNSUPPORTED);
      EXPECT_TRUE(meeting.error().message.starts_with(
          "ranks 2-3 (b) cannot see the shared memory of rank 0 (a)"))
          << meeting.error().message;
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_TRUE(folder.entries().empty());
}

}  // namespace
}  // namespace libhvd
