#include "model/host_request.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(FoldHostRequests, IsShortAndParsesToTheSameRequests) {
  const std::pair<const char*, const char*> cases[] = {
      {"n1:8,n2:8,n3:8,login:1", "n[1-3]:8,login:1"},
      {"n1,n2,n3:4", "n[1-2],n3:4"},
      {"bob@n1:2,bob@n2:2,n3:2", "bob@n[1-2]:2,n3:2"},
      {"[::1]:4,[::2]:4", "[::1]:4,[::2]:4"},
      {"a:4,b:4", "a:4,b:4"},
      {"n1:2,[::1]:2,n2:2", "n1:2,[::1]:2,n2:2"},
  };
  for (const auto& [text, folded] : cases) {
    const auto requests = parse_host_requests(text, "-H");
    ASSERT_TRUE(requests) << text << ": " << requests.error().message;
    EXPECT_EQ(fold_host_requests(*requests), folded);
    EXPECT_EQ(parse_host_requests(folded, "-H").value(), *requests) << text;
  }
  EXPECT_EQ(fold_host_requests({}), "");
}

TEST(ParseHostRequests, SaysHowSlotsAreWrittenWhereANumberFollowsAHost) {
  const auto one = parse_host_request("localhost,2", "hosts:1");
  ASSERT_FALSE(one);
  EXPECT_NE(one.error().message.find("a host with 2 slots is localhost:2"), std::string::npos);
}

}  // namespace
}  // namespace hvdrun
