#include "protocol/pmix_messages.hpp"

#include <random>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

const std::string kKey = pack_fence_key(7, "", {1, 2, 300});

TEST(PmixMessages, FenceRoundTrips) {
  const auto payload = pack_fence({kKey, {0, 3, 70'000}, -52, std::string_view("a\0b", 3)});
  const auto got = parse_fence(payload);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->key, kKey);
  EXPECT_EQ(got->hosts, (std::vector<std::uint32_t>{0, 3, 70'000}));
  EXPECT_EQ(got->status, -52);
  EXPECT_EQ(got->data, std::string_view("a\0b", 3));
}

TEST(PmixMessages, FenceResultRoundTrips) {
  const auto payload = pack_fence_result(kKey, kPmixTimeout, 3) + "abc";
  const auto got = parse_fence_result(payload);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->key, kKey);
  EXPECT_EQ(got->status, kPmixTimeout);
  EXPECT_EQ(got->data, "abc");
}

TEST(PmixMessages, ModexRequestsAndAnswersRoundTrip) {
  const auto request = parse_modex_request(pack_modex_request({3, 1023}));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->asker, 3u);
  EXPECT_EQ(request->rank, 1023u);
  const auto payload = pack_modex_answer({{3, 1023}, kPmixNotFound, "abc"});
  const auto answer = parse_modex_answer(payload);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->request.asker, 3u);
  EXPECT_EQ(answer->request.rank, 1023u);
  EXPECT_EQ(answer->status, kPmixNotFound);
  EXPECT_EQ(answer->data, "abc");
}

TEST(PmixMessages, KeysOfOtherFencesDiffer) {
  EXPECT_EQ(pack_fence_key(7, "", {1, 2, 300}), kKey);
  EXPECT_NE(pack_fence_key(8, "", {1, 2, 300}), kKey);
  EXPECT_NE(pack_fence_key(7, "", {1, 2}), kKey);
  EXPECT_NE(pack_fence_key(7, "", {}), kKey);
  EXPECT_NE(pack_fence_key(7, "connect", {1, 2, 300}), kKey);
}

TEST(PmixMessages, RequestsAndAnswersForNamesRoundTrip) {
  const auto payload = pack_names_request(
      {3, NamesRequest::Operation::publish, true, false, {{5, "key", "value"}, {6, {}, {}}}});
  const auto request = parse_names_request(payload);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->number, 3u);
  EXPECT_EQ(request->operation, NamesRequest::Operation::publish);
  EXPECT_TRUE(request->once);
  EXPECT_FALSE(request->waits);
  ASSERT_EQ(request->values.size(), 2u);
  EXPECT_EQ(request->values[0].rank, 5u);
  EXPECT_EQ(request->values[0].key, "key");
  EXPECT_EQ(request->values[0].value, "value");
  const auto packed = pack_names_answer({4, kPmixDuplicateKey, {{7, "k", "v"}}});
  const auto answer = parse_names_answer(packed);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->number, 4u);
  EXPECT_EQ(answer->status, kPmixDuplicateKey);
  ASSERT_EQ(answer->values.size(), 1u);
  EXPECT_EQ(answer->values[0].rank, 7u);
  EXPECT_EQ(answer->values[0].value, "v");
}

// Truncates messages anywhere before their data, whose length is variable.
TEST(PmixMessages, IncompleteMessagesAreRefused) {
  const auto fence = pack_fence({kKey, {0, 3}, 0, {}});
  for (std::size_t size = 0; size < fence.size(); ++size)
    EXPECT_FALSE(parse_fence(fence.substr(0, size))) << size;
  const auto result = pack_fence_result(kKey, 0);
  for (std::size_t size = 0; size < result.size(); ++size)
    EXPECT_FALSE(parse_fence_result(result.substr(0, size))) << size;
  const auto request = pack_modex_request({1, 2});
  for (std::size_t size = 0; size < request.size(); ++size)
    EXPECT_FALSE(parse_modex_request(request.substr(0, size))) << size;
  const auto answer = pack_modex_answer({{1, 2}, 0, {}});
  for (std::size_t size = 0; size < answer.size(); ++size)
    EXPECT_FALSE(parse_modex_answer(answer.substr(0, size))) << size;
  const auto names =
      pack_names_request({1, NamesRequest::Operation::look_up, false, true, {{2, "key", "value"}}});
  for (std::size_t size = 0; size < names.size(); ++size)
    EXPECT_FALSE(parse_names_request(names.substr(0, size))) << size;
  const auto found = pack_names_answer({1, 0, {{2, "key", "value"}}});
  for (std::size_t size = 0; size < found.size(); ++size)
    EXPECT_FALSE(parse_names_answer(found.substr(0, size))) << size;
}

TEST(PmixMessages, InvalidMessagesAreRefused) {
  EXPECT_FALSE(parse_fence(pack_fence({kKey, {}, 0, {}}))) << "no host";
  EXPECT_FALSE(parse_fence(pack_fence({kKey, {1, 1}, 0, {}}))) << "a host twice";
  EXPECT_FALSE(parse_fence(pack_fence({kKey, {2, 1}, 0, {}}))) << "not ascending";
  EXPECT_FALSE(parse_modex_request(pack_modex_request({1, 2}) + "x")) << "more than a request";
  std::string endless = pack_fence({"", {0}, 0, {}});
  endless.replace(4, 4, "\xff\xff\xff\xff");
  EXPECT_FALSE(parse_fence(endless)) << "more hosts than bytes";
}

TEST(PmixMessages, RandomBytesDoNotCrash) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random() % 5);
    static_cast<void>(parse_fence(bytes));
    static_cast<void>(parse_fence_result(bytes));
    static_cast<void>(parse_modex_request(bytes));
    static_cast<void>(parse_modex_answer(bytes));
  }
}

}  // namespace
}  // namespace hvdrun
