#include "agent/pmix_modex.hpp"

#include "protocol/pmix_messages.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Is host 1 of two, with ranks 2 and 3. Its requests to libpmix stay open until the test answers.
class PmixModexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PmixJob job;
    job.size = 4;
    job.host_index = 1;
    job.hosts = {{"a", {0, 1}}, {"b", {2, 3}}};
    modex_.set_job(job);
  }

  void ask(std::uint32_t rank, std::optional<std::chrono::seconds> timeout = std::nullopt) {
    modex_.ask(rank, timeout, [this](std::int32_t status, std::string_view data) {
      answers_.push_back(std::to_string(status) + " " + std::string(data));
      loop_.stop();
    });
  }

  struct Sent {
    FrameType type;
    std::uint32_t destination;
    std::string payload;
  };
  struct Fetched {
    std::optional<std::uint32_t> rank;
    PmixAnswer answer;
  };
  EventLoop loop_;
  std::vector<Sent> sent_;
  std::vector<Fetched> fetched_;
  std::vector<std::string> answers_;
  PmixModex modex_{loop_,
                   [this](FrameType type, std::uint32_t destination, std::string_view payload) {
                     sent_.push_back({type, destination, std::string(payload)});
                   },
                   [this](std::optional<std::uint32_t> rank, PmixAnswer answer) {
                     fetched_.push_back({rank, std::move(answer)});
                   }};
};

using Lines = std::vector<std::string>;

TEST_F(PmixModexTest, SendsOneRequestForAllCallersThatWait) {
  ask(1);
  ask(1);
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].type, FrameType::modex_request);
  EXPECT_EQ(sent_[0].destination, 0u);
  EXPECT_EQ(sent_[0].payload, pack_modex_request({1, 1}));
  ASSERT_TRUE(modex_.on_answer(pack_modex_answer({{1, 1}, kPmixSuccess, "data"})));
  EXPECT_EQ(answers_, (Lines{"0 data", "0 data"}));
  ask(1);
  EXPECT_EQ(sent_.size(), 2u);
}

TEST_F(PmixModexTest, AnswerAfterATimeoutGoesToTheNextCaller) {
  ask(1, std::chrono::seconds(1));
  loop_.run();
  EXPECT_EQ(answers_, Lines{"-24 "});
  ask(1);
  EXPECT_EQ(sent_.size(), 1u) << "the first request is still open";
  ASSERT_TRUE(modex_.on_answer(pack_modex_answer({{1, 1}, kPmixSuccess, "data"})));
  EXPECT_EQ(answers_, (Lines{"-24 ", "0 data"}));
}

TEST_F(PmixModexTest, DropsALateAnswerWithoutACaller) {
  ask(1, std::chrono::seconds(1));
  loop_.run();
  EXPECT_TRUE(modex_.on_answer(pack_modex_answer({{1, 1}, kPmixSuccess, "data"})));
  EXPECT_EQ(answers_, Lines{"-24 "});
}

TEST_F(PmixModexTest, RefusesAnUnrequestedAnswer) {
  EXPECT_FALSE(modex_.on_answer(pack_modex_answer({{1, 1}, kPmixSuccess, "data"})));
  ask(1);
  EXPECT_FALSE(modex_.on_answer(pack_modex_answer({{0, 1}, kPmixSuccess, "data"})));
}

TEST_F(PmixModexTest, UnknownRankIsAnError) {
  ask(4);
  EXPECT_EQ(answers_, Lines{"-46 "});
}

TEST_F(PmixModexTest, SendsNoRequestForRanksOfThisHost) {
  ask(3);
  EXPECT_TRUE(sent_.empty());
  ASSERT_EQ(fetched_.size(), 1u);
  EXPECT_EQ(fetched_[0].rank, 3u);
  fetched_[0].answer(kPmixSuccess, "data");
  EXPECT_EQ(answers_, Lines{"0 data"});
}

TEST_F(PmixModexTest, AnswersRequestsOfOtherHosts) {
  ASSERT_TRUE(modex_.on_request(pack_modex_request({0, 2})));
  EXPECT_TRUE(sent_.empty());
  fetched_.at(0).answer(kPmixSuccess, "data");
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].type, FrameType::modex_answer);
  EXPECT_EQ(sent_[0].destination, 0u);
  EXPECT_EQ(sent_[0].payload, pack_modex_answer({{0, 2}, kPmixSuccess, "data"}));
  EXPECT_FALSE(modex_.on_request(pack_modex_request({0, 1}))) << "not a rank of this host";
  EXPECT_FALSE(modex_.on_request(pack_modex_request({0, 4}))) << "not a rank";
}

TEST_F(PmixModexTest, AnswersNotFoundWhenARankEndsWithoutData) {
  ASSERT_TRUE(modex_.on_request(pack_modex_request({0, 2})));
  modex_.rank_ended(3);
  EXPECT_EQ(fetched_.size(), 1u);
  modex_.rank_ended(2);
  ASSERT_EQ(fetched_.size(), 2u);
  EXPECT_EQ(fetched_[1].rank, std::nullopt);
  fetched_[1].answer(kPmixSuccess, "of the job");
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].payload, pack_modex_answer({{0, 2}, kPmixNotFound, {}}));
  fetched_[0].answer(kPmixSuccess, "after all");
  EXPECT_EQ(sent_.size(), 1u) << "a request is answered once";
}

TEST_F(PmixModexTest, AnswersWithTheDataOfAnEndedRank) {
  modex_.rank_ended(2);
  ASSERT_TRUE(modex_.on_request(pack_modex_request({0, 2})));
  ASSERT_EQ(fetched_.size(), 2u);
  fetched_[0].answer(kPmixSuccess, "data");
  fetched_[1].answer(kPmixSuccess, "of the job");
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].payload, pack_modex_answer({{0, 2}, kPmixSuccess, "data"}));
}

TEST_F(PmixModexTest, EmptyDataIsAnsweredAsNotFound) {
  ASSERT_TRUE(modex_.on_request(pack_modex_request({0, 2})));
  fetched_.at(0).answer(kPmixSuccess, "");
  EXPECT_EQ(sent_.at(0).payload, pack_modex_answer({{0, 2}, kPmixNotFound, {}}));
}

}  // namespace
}  // namespace hvdrun
