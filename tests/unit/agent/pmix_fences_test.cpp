#include "agent/pmix_fences.hpp"

#include "protocol/pmix_messages.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Is host 1 of three, with ranks 2 and 3. Host 0 has ranks 0 and 1, host 2 has rank 4.
class PmixFencesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PmixJob job;
    job.size = 5;
    job.host_index = 1;
    job.hosts = {{"a", {0, 1}}, {"b", {2, 3}}, {"c", {4}}};
    fences_.set_job(job);
  }

  void join(std::vector<std::uint32_t> ranks,
            std::optional<std::chrono::seconds> timeout = std::nullopt) {
    fences_.join({std::move(ranks), kPmixSuccess, "mine", timeout,
                  [this](std::int32_t status, std::string_view data) {
                    answers_.push_back(std::to_string(status) + " " + std::string(data));
                  }});
  }

  struct Sent {
    FrameType type;
    std::string payload;
  };
  EventLoop loop_;
  std::vector<Sent> sent_;
  std::vector<std::string> answers_;
  PmixFences fences_{loop_,
                     [this](FrameType type, std::uint32_t destination, std::string_view payload) {
                       EXPECT_EQ(destination, kToLauncher);
                       sent_.push_back({type, std::string(payload)});
                       loop_.stop();
                     }};
};

using Lines = std::vector<std::string>;

TEST_F(PmixFencesTest, SendsThisHostsDataAndReturnsTheResult) {
  join({});
  ASSERT_EQ(sent_.size(), 1u);
  const auto part = parse_fence(sent_[0].payload);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->hosts, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(part->data, "mine");
  EXPECT_EQ(answers_, Lines{});
  ASSERT_TRUE(fences_.on_result(pack_fence_result(part->key, kPmixSuccess) + "all"));
  EXPECT_EQ(answers_, Lines{"0 all"});
  EXPECT_FALSE(fences_.on_result(pack_fence_result(part->key, kPmixSuccess)))
      << "the result a second time";
}

TEST_F(PmixFencesTest, NamesOnlyTheHostsOfItsRanks) {
  join({2, 4});
  const auto part = parse_fence(sent_.at(0).payload);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->hosts, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(PmixFencesTest, FenceWithinThisHostSendsNoFrame) {
  join({2, 3});
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(answers_, Lines{"0 mine"});
}

TEST_F(PmixFencesTest, UnknownRankIsAnError) {
  join({2, 5});
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(answers_, Lines{"-46 "});
}

TEST_F(PmixFencesTest, NumbersTheFencesOfEachSetOfRanks) {
  join({});
  join({2, 4});
  join({2, 4});
  ASSERT_EQ(sent_.size(), 3u);
  EXPECT_EQ(parse_fence(sent_[0].payload)->key, pack_fence_key(0, "", {}));
  EXPECT_EQ(parse_fence(sent_[1].payload)->key, pack_fence_key(0, "", {2, 4}));
  EXPECT_EQ(parse_fence(sent_[2].payload)->key, pack_fence_key(1, "", {2, 4}));
}

TEST_F(PmixFencesTest, ReportsATimeoutToTheLauncherWhichEndsTheFence) {
  join({}, std::chrono::seconds(1));
  loop_.run();
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1].type, FrameType::fence_expired);
  EXPECT_EQ(sent_[1].payload, pack_fence_key(0, "", {}));
  EXPECT_EQ(answers_, Lines{});
  ASSERT_TRUE(fences_.on_result(pack_fence_result(sent_[1].payload, kPmixTimeout)));
  EXPECT_EQ(answers_, Lines{"-24 "});
}

TEST_F(PmixFencesTest, CallbackMayStartTheNextFence) {
  fences_.join(
      {{}, kPmixSuccess, "", std::nullopt, [this](std::int32_t, std::string_view) { join({}); }});
  ASSERT_TRUE(fences_.on_result(pack_fence_result(pack_fence_key(0, "", {}), kPmixSuccess)));
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(parse_fence(sent_[1].payload)->key, pack_fence_key(1, "", {}));
}

}  // namespace
}  // namespace hvdrun
