#include "job/published_names.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using Lines = std::vector<std::string>;
using enum NamesRequest::Operation;

// Has the names of a job and records what they answer.
class PublishedNamesTest : public ::testing::Test {
 protected:
  void publish(std::uint32_t number, std::uint32_t rank, std::string_view key,
               std::string_view value, bool once = false) {
    names_.take(0, {number, NamesRequest::Operation::publish, once, false, {{rank, key, value}}});
  }
  void look_up(std::size_t host, std::uint32_t number, const std::vector<std::string_view>& keys,
               bool waits = false) {
    NamesRequest request{number, NamesRequest::Operation::look_up, false, waits, {}};
    for (const auto key : keys) request.values.push_back({0, key, {}});
    names_.take(host, request);
  }

  // Returns "host number: status key=value/rank …" for each answer since the last call.
  Lines answers() { return std::exchange(answers_, {}); }

  Lines answers_;
  PublishedNames names_{[this](std::size_t host, const NamesAnswer& answer) {
    auto line = std::to_string(host) + " " + std::to_string(answer.number) + ": " +
                std::to_string(answer.status);
    for (const auto& value : answer.values)
      line += " " + std::string(value.key) + "=" + std::string(value.value) + "/" +
              std::to_string(value.rank);
    answers_.push_back(line);
  }};
};

TEST_F(PublishedNamesTest, ALookupFindsWhatARankHasPublished) {
  publish(1, 3, "a", "x");
  look_up(1, 7, {"a"});
  EXPECT_EQ(answers(), (Lines{"0 1: 0", "1 7: 0 a=x/3"}));
}

TEST_F(PublishedNamesTest, ALookupSaysHowMuchIsMissing) {
  publish(1, 3, "a", "x");
  look_up(1, 7, {"b"});
  look_up(1, 8, {"b", "a"});
  EXPECT_EQ(answers(), (Lines{"0 1: 0", "1 7: -46", "1 8: -52 a=x/3"}));
}

TEST_F(PublishedNamesTest, ALookupThatWaitsIsAnsweredOnceAllIsThere) {
  look_up(2, 7, {"a", "b"}, true);
  publish(1, 0, "b", "y");
  EXPECT_EQ(answers(), Lines{"0 1: 0"});
  publish(2, 0, "a", "x");
  EXPECT_EQ(answers(), (Lines{"0 2: 0", "2 7: 0 a=x/0 b=y/0"}));
}

TEST_F(PublishedNamesTest, AnExpiredLookupIsAnsweredOnce) {
  look_up(2, 7, {"a"}, true);
  names_.take(1, {7, expire, false, false, {}});
  EXPECT_EQ(answers(), Lines{}) << "of another host";
  names_.take(2, {7, expire, false, false, {}});
  names_.take(2, {7, expire, false, false, {}});
  publish(1, 0, "a", "x");
  EXPECT_EQ(answers(), (Lines{"2 7: -24", "0 1: 0"}));
}

TEST_F(PublishedNamesTest, AValueThatIsReadOnceIsGoneAfterTheFirstLookup) {
  look_up(1, 7, {"a"}, true);
  look_up(2, 7, {"a"}, true);
  publish(1, 0, "a", "x", true);
  EXPECT_EQ(answers(), (Lines{"0 1: 0", "1 7: 0 a=x/0"}));
  publish(2, 0, "a", "y", true);
  EXPECT_EQ(answers(), (Lines{"0 2: 0", "2 7: 0 a=y/0"}));
}

TEST_F(PublishedNamesTest, AKeyIsPublishedOnceUntilItsRankWithdrawsIt) {
  publish(1, 3, "a", "x");
  publish(2, 3, "a", "y");
  names_.take(0, {3, withdraw, false, false, {{4, "a", {}}}});
  EXPECT_EQ(answers(), (Lines{"0 1: 0", "0 2: -53", "0 3: -46"})) << "another rank withdraws it";
  names_.take(0, {4, withdraw, false, false, {{3, "a", {}}}});
  publish(5, 4, "a", "z");
  EXPECT_EQ(answers(), (Lines{"0 4: 0", "0 5: 0"}));
}

TEST_F(PublishedNamesTest, ARankWithdrawsAllThatItHasPublished) {
  publish(1, 3, "a", "x");
  publish(2, 3, "b", "x");
  publish(3, 4, "c", "x");
  names_.take(0, {4, withdraw, false, false, {{3, {}, {}}}});
  answers();
  look_up(0, 5, {"a", "b", "c"});
  EXPECT_EQ(answers(), Lines{"0 5: -52 c=x/4"});
}

TEST_F(PublishedNamesTest, NothingIsPublishedOfARequestWithAKeyThatExists) {
  publish(1, 3, "a", "x");
  names_.take(0,
              {2, NamesRequest::Operation::publish, false, false, {{3, "b", "x"}, {3, "a", "x"}}});
  names_.take(0,
              {3, NamesRequest::Operation::publish, false, false, {{3, "b", "x"}, {3, "b", "x"}}});
  look_up(0, 4, {"b"});
  EXPECT_EQ(answers(), (Lines{"0 1: 0", "0 2: -53", "0 3: -53", "0 4: -46"}));
}

TEST_F(PublishedNamesTest, MoreThan64MiBAreRefused) {
  const std::string half(40u << 20, 'x');
  publish(1, 0, "a", half);
  publish(2, 0, "b", half);
  names_.take(0, {3, withdraw, false, false, {{0, "a", {}}}});
  publish(4, 0, "b", half);
  EXPECT_EQ(answers(), (Lines{"0 1: 0", "0 2: -29", "0 3: 0", "0 4: 0"}));
}

TEST_F(PublishedNamesTest, ALostHostIsNotAnswered) {
  look_up(1, 7, {"a"}, true);
  look_up(2, 7, {"a"}, true);
  names_.host_lost(1);
  publish(1, 0, "a", "x");
  EXPECT_EQ(answers(), (Lines{"0 1: 0", "2 7: 0 a=x/0"}));
}

}  // namespace
}  // namespace hvdrun
