#include "job/pmix_router.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

struct Sent {
  std::size_t host;
  FrameType type;
  std::string payload;
};

// Has a router for four hosts and records what it sends.
class PmixRouterTest : public ::testing::Test {
 protected:
  Result<void> fence(std::size_t host, const std::string& key, std::vector<std::uint32_t> hosts,
                     std::int32_t status = kPmixSuccess) {
    const auto data = "<" + std::to_string(host) + ">";
    return take(host, FrameType::fence, pack_fence({key, std::move(hosts), status, data}));
  }
  Result<void> ask(std::uint32_t host, std::uint32_t owner, std::uint32_t rank) {
    return take(host, FrameType::modex_request, pack_modex_request({host, rank}), owner);
  }
  Result<void> answer(std::uint32_t host, const ModexRequest& request, std::string_view data) {
    return take(host, FrameType::modex_answer, pack_modex_answer({request, kPmixSuccess, data}),
                request.asker);
  }
  Result<void> take(std::size_t host, FrameType type, const std::string& payload,
                    std::uint32_t destination = kToLauncher) {
    return router_.take(host, {type, destination, payload});
  }

  // Returns "host: key status data" for each result sent since the last call.
  std::vector<std::string> results() {
    std::vector<std::string> lines;
    for (const auto& sent : std::exchange(sent_, {})) {
      EXPECT_EQ(sent.type, FrameType::fence_result);
      const auto result = parse_fence_result(sent.payload);
      lines.push_back(std::to_string(sent.host) + ": " + std::string(result->key) + " " +
                      std::to_string(result->status) + " " + std::string(result->data));
    }
    return lines;
  }
  // Returns "host: asker rank status data" for each answer sent since the last call.
  std::vector<std::string> answers() {
    std::vector<std::string> lines;
    for (const auto& sent : std::exchange(sent_, {})) {
      EXPECT_EQ(sent.type, FrameType::modex_answer);
      const auto got = parse_modex_answer(sent.payload);
      lines.push_back(std::to_string(sent.host) + ": " + std::to_string(got->request.asker) + " " +
                      std::to_string(got->request.rank) + " " + std::to_string(got->status) + " " +
                      std::string(got->data));
    }
    return lines;
  }

  std::vector<Sent> sent_;
  PmixRouter router_{4, [this](std::size_t host, FrameType type, const SharedPayload& payload) {
                       sent_.push_back({host, type, *payload});
                     }};
};

using Lines = std::vector<std::string>;

TEST_F(PmixRouterTest, FenceCompletesWhenAllItsHostsHaveArrived) {
  ASSERT_TRUE(fence(3, "a", {0, 2, 3}));
  ASSERT_TRUE(fence(0, "a", {0, 2, 3}));
  EXPECT_EQ(results(), Lines{});
  ASSERT_TRUE(fence(2, "a", {0, 2, 3}));
  EXPECT_EQ(results(), (Lines{"0: a 0 <0><2><3>", "2: a 0 <0><2><3>", "3: a 0 <0><2><3>"}));
}

TEST_F(PmixRouterTest, HostsShareOneCopyOfAFenceResult) {
  std::vector<SharedPayload> payloads;
  PmixRouter router(2, [&](std::size_t, FrameType, const SharedPayload& payload) {
    payloads.push_back(payload);
  });
  for (const std::size_t host : {0u, 1u}) {
    const auto payload = pack_fence({"a", {0, 1}, kPmixSuccess, "x"});
    ASSERT_TRUE(router.take(host, {FrameType::fence, kToLauncher, payload}));
  }
  ASSERT_EQ(payloads.size(), 2u);
  EXPECT_EQ(payloads[0], payloads[1]);
}

TEST_F(PmixRouterTest, ConcurrentFencesDoNotMix) {
  ASSERT_TRUE(fence(0, "a", {0, 1}));
  ASSERT_TRUE(fence(0, "b", {0, 1}));
  ASSERT_TRUE(fence(2, "c", {2, 3}));
  ASSERT_TRUE(fence(1, "b", {0, 1}));
  EXPECT_EQ(results(), (Lines{"0: b 0 <0><1>", "1: b 0 <0><1>"}));
  ASSERT_TRUE(fence(1, "a", {0, 1}));
  EXPECT_EQ(results(), (Lines{"0: a 0 <0><1>", "1: a 0 <0><1>"}));
}

TEST_F(PmixRouterTest, FailedHostFailsTheFenceForPresentAndLateHosts) {
  ASSERT_TRUE(fence(0, "a", {0, 1, 2}));
  ASSERT_TRUE(fence(1, "a", {0, 1, 2}, -52));
  EXPECT_EQ(results(), (Lines{"0: a -52 ", "1: a -52 "}));
  ASSERT_TRUE(fence(2, "a", {0, 1, 2}));
  EXPECT_EQ(results(), (Lines{"2: a -52 "}));
  // Every host has its result, so the key can be used again.
  ASSERT_TRUE(fence(0, "a", {0}));
  EXPECT_EQ(results(), (Lines{"0: a 0 <0>"}));
}

TEST_F(PmixRouterTest, ExpiredFenceFailsForEveryHost) {
  ASSERT_TRUE(fence(0, "a", {0, 1, 2}));
  ASSERT_TRUE(fence(1, "a", {0, 1, 2}));
  ASSERT_TRUE(take(0, FrameType::fence_expired, "a"));
  EXPECT_EQ(results(), (Lines{"0: a -24 ", "1: a -24 "}));
  ASSERT_TRUE(take(1, FrameType::fence_expired, "a"));  // its own timeout crossed the result
  EXPECT_EQ(results(), Lines{});
  ASSERT_TRUE(fence(2, "a", {0, 1, 2}));
  EXPECT_EQ(results(), (Lines{"2: a -24 "}));
  ASSERT_TRUE(take(2, FrameType::fence_expired, "a"));
  EXPECT_EQ(results(), Lines{});
}

TEST_F(PmixRouterTest, LostHostFailsFencesThatWaitForIt) {
  ASSERT_TRUE(fence(0, "a", {0, 1, 2}));
  ASSERT_TRUE(fence(0, "b", {0, 1}));
  router_.host_lost(2);
  EXPECT_EQ(results(), (Lines{"0: a -61 "}));
  ASSERT_TRUE(fence(1, "a", {0, 1, 2}));
  EXPECT_EQ(results(), (Lines{"1: a -61 "}));
  ASSERT_TRUE(fence(1, "b", {0, 1}));
  EXPECT_EQ(results(), (Lines{"0: b 0 <0><1>", "1: b 0 <0><1>"}));
  ASSERT_TRUE(fence(0, "c", {0, 1, 2}));
  EXPECT_EQ(results(), (Lines{"0: c -61 "}));
}

TEST_F(PmixRouterTest, FenceUsesDataThatALostHostHadSent) {
  ASSERT_TRUE(fence(2, "a", {0, 2}));
  router_.host_lost(2);
  ASSERT_TRUE(fence(0, "a", {0, 2}));
  EXPECT_EQ(results(), (Lines{"0: a 0 <0><2>"}));
}

TEST_F(PmixRouterTest, FailedFenceIsForgottenWhenItsRemainingHostsAreLost) {
  ASSERT_TRUE(fence(0, "a", {0, 1, 2}, -52));
  results();
  router_.host_lost(1);
  router_.host_lost(2);
  router_.host_lost(2);
  ASSERT_TRUE(fence(0, "a", {0, 3}));
  EXPECT_EQ(results(), Lines{});
}

TEST_F(PmixRouterTest, RefusesInconsistentFences) {
  ASSERT_TRUE(fence(0, "a", {0, 1}));
  EXPECT_FALSE(fence(0, "a", {0, 1})) << "the same host twice";
  EXPECT_FALSE(fence(1, "a", {0, 1, 2})) << "a different list of hosts";
  EXPECT_FALSE(fence(2, "a", {0, 1})) << "a host outside the list";
  EXPECT_FALSE(fence(0, "b", {0, 4})) << "a list with an unknown host";
  EXPECT_FALSE(take(0, FrameType::fence, "short"));
  EXPECT_FALSE(take(0, FrameType::output, ""));
}

TEST_F(PmixRouterTest, RefusesAFenceResultLargerThanAFrame) {
  const std::string half(kMaxPayload / 2, 'x');
  const auto payload = pack_fence({"a", {0, 1}, kPmixSuccess, half});
  ASSERT_TRUE(take(0, FrameType::fence, payload));
  const auto taken = take(1, FrameType::fence, payload);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message.find("67108864 bytes"), std::string::npos)
      << taken.error().message;
}

TEST_F(PmixRouterTest, RefusesPartialFenceDataLargerThanAFrame) {
  const std::string most(kMaxPayload / 2 + 1, 'x');
  const auto payload = pack_fence({"a", {0, 1, 2, 3}, kPmixSuccess, most});
  ASSERT_TRUE(take(0, FrameType::fence, payload));
  EXPECT_FALSE(take(1, FrameType::fence, payload)) << "although two hosts are missing";
}

TEST_F(PmixRouterTest, ForwardsModexRequestsAndAnswers) {
  ASSERT_TRUE(ask(0, 2, 7));
  ASSERT_TRUE(ask(1, 2, 7));
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[0].host, 2u);
  EXPECT_EQ(sent_[0].type, FrameType::modex_request);
  EXPECT_EQ(sent_[0].payload, pack_modex_request({0, 7}));
  sent_.clear();
  ASSERT_TRUE(answer(2, {1, 7}, "one"));
  ASSERT_TRUE(answer(2, {0, 7}, "two"));
  EXPECT_EQ(answers(), (Lines{"1: 1 7 0 one", "0: 0 7 0 two"}));
  ASSERT_TRUE(ask(0, 2, 7)) << "a second request after the first answer";
}

TEST_F(PmixRouterTest, LostHostFailsOpenRequests) {
  ASSERT_TRUE(ask(0, 2, 7));
  ASSERT_TRUE(ask(2, 1, 4));
  ASSERT_TRUE(ask(3, 1, 4));
  sent_.clear();
  router_.host_lost(2);
  EXPECT_EQ(answers(), (Lines{"0: 0 7 -61 "}));
  ASSERT_TRUE(answer(1, {2, 4}, "for a lost host"));
  EXPECT_EQ(answers(), Lines{});
  ASSERT_TRUE(answer(1, {3, 4}, "found"));
  EXPECT_EQ(answers(), (Lines{"3: 3 4 0 found"}));
  ASSERT_TRUE(ask(0, 2, 8));
  EXPECT_EQ(answers(), (Lines{"0: 0 8 -61 "}));
}

TEST_F(PmixRouterTest, RefusesForgedModexRequestsAndAnswers) {
  EXPECT_FALSE(take(0, FrameType::modex_request, pack_modex_request({1, 7}), 2))
      << "for another host";
  EXPECT_FALSE(ask(0, 4, 7)) << "to an unknown host";
  ASSERT_TRUE(ask(0, 2, 7));
  EXPECT_FALSE(ask(0, 2, 7)) << "the same request twice";
  EXPECT_FALSE(answer(1, {0, 7}, "from a host that was not asked"));
  EXPECT_FALSE(answer(2, {0, 8}, "for a rank that was not asked for"));
  EXPECT_FALSE(answer(2, {9, 7}, "to an unknown host"));
}

}  // namespace
}  // namespace hvdrun
