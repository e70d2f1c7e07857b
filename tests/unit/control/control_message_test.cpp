#include "control/control_message.hpp"

#include "base/version.hpp"

#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::string_view line(const std::string& text) {
  return std::string_view(text).substr(0, text.find('\n'));
}

TEST(ControlMessage, ARequestArrivesAsItWasSent) {
  const auto request = parse_request(line(pack_request("logs", {{"after", 7}})));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->word, "logs");
  EXPECT_EQ(request->arguments["after"], 7);
}

TEST(ControlMessage, AnswersAndErrorsArriveAsTheyWereSent) {
  const auto answer = parse_answer(line(pack_answer(json_line({{"ranks", 2}}))));
  ASSERT_TRUE(answer);
  EXPECT_EQ((*answer)["ranks"], 2);
  const auto error = parse_answer(line(pack_error({"no such rank", kExitUsage})));
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().message, "no such rank");
  EXPECT_EQ(error.error().exit_code, kExitUsage);
}

TEST(ControlMessage, MalformedRequestsAreErrors) {
  for (const auto* text : {"", "{", "[]", "7", "{\"version\":1}", "{\"version\":1,\"word\":7}",
                           "{\"version\":1,\"word\":\"a\",\"arguments\":[]}", "\xff\xfe"})
    EXPECT_FALSE(parse_request(text)) << text;
  for (const auto* text : {"", "[]", "{\"version\":1}"}) EXPECT_FALSE(parse_answer(text)) << text;
  EXPECT_FALSE(parse_request(std::string(50'000, '[')));
}

TEST(ControlMessage, AnotherVersionIsNamed) {
  const auto request = parse_request(R"({"version":99,"word":"about"})");
  ASSERT_FALSE(request);
  EXPECT_NE(request.error().message.find("version 1, not 99"), std::string::npos)
      << request.error().message;
  const auto answer = parse_answer(R"({"version":99,"hvdrun":"9.9.9","answer":{}})");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, std::string("the job's hvdrun is 9.9.9, this one is ") +
                                        kVersion +
                                        "; look into the job with the hvdrun that has started it");
}

TEST(ControlMessage, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(json_line({{"command", "a\xff"}}), "{\"command\":\"a\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace hvdrun
