#include "agent/pmix_greeting.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::string number(std::uint32_t value) {
  const std::uint32_t sent = htonl(value);
  return {reinterpret_cast<const char*>(&sent), sizeof sent};
}

// Puts the header of a greeting before its body.
std::string with_header(const std::string& body) {
  const std::array<std::uint32_t, 4> header{0, 0, static_cast<std::uint32_t>(body.size()), 0};
  return std::string(reinterpret_cast<const char*>(header.data()), sizeof header) + body;
}

std::string text(std::string_view words) {
  return std::string(words) + '\0';
}

std::string greeting(char kind, const std::string& credential) {
  return with_header(text("native") + number(static_cast<std::uint32_t>(credential.size())) +
                     credential + kind + text("hvdrun-1") + number(3) + text("4.2.2"));
}

TEST(PmixGreeting, HasARank) {
  EXPECT_EQ(rank_of_pmix_greeting(greeting(0, "")), 3);
  EXPECT_EQ(rank_of_pmix_greeting(greeting(0, "credential")), 3);
}

TEST(PmixGreeting, OfAToolHasNoRank) {
  EXPECT_EQ(rank_of_pmix_greeting(greeting(3, "")), std::nullopt);
}

TEST(PmixGreeting, HasNoRankIfAPartIsMissing) {
  const auto whole = greeting(0, "credential");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(rank_of_pmix_greeting(std::string_view(whole).substr(0, size)), std::nullopt) << size;
}

TEST(PmixGreeting, HasNoRankIfASizeIsWrong) {
  EXPECT_EQ(rank_of_pmix_greeting(with_header(text("native") + number(0xffffffff) + "rest")),
            std::nullopt);
  EXPECT_EQ(rank_of_pmix_greeting(with_header("no end")), std::nullopt);
  EXPECT_EQ(rank_of_pmix_greeting(with_header("")), std::nullopt);
}

}  // namespace
}  // namespace hvdrun
