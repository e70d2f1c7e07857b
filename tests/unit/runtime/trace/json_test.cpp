// JSON text is valid even if names have arbitrary bytes.
#include "trace/json.hpp"

#include <random>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace libhvd {
namespace {

std::string json_of(std::string_view bytes) {
  std::string json;
  append_json_string(json, bytes);
  return json;
}

std::string microseconds(std::int64_t ns) {
  std::string json;
  append_microseconds(json, ns);
  return json;
}

TEST(JsonText, StringsAreEscaped) {
  using namespace std::string_view_literals;
  const std::string bad = "\xef\xbf\xbd";  // U+FFFD
  const std::pair<std::string_view, std::string> cases[] = {
      {"", "\"\""},
      {"layer1/weight:0", "\"layer1/weight:0\""},
      {"a\"b\\c", R"("a\"b\\c")"},
      {"\n\t\x1f\0"sv, R"("\u000a\u0009\u001f\u0000")"},
      {"\x7f", "\"\x7f\""},
      {"Gr\xc3\xb6\xc3\x9f"
       "e \xe2\x88\x91 \xf0\x9f\x98\x80",
       "\"Gr\xc3\xb6\xc3\x9f"
       "e \xe2\x88\x91 \xf0\x9f\x98\x80\""},
      {"\xff", '"' + bad + '"'},
      {"\xc3", '"' + bad + '"'},                                // cut short
      {"\xc0\xaf", '"' + bad + bad + '"'},                      // overlong encoding
      {"\xed\xa0\x80", '"' + bad + bad + bad + '"'},            // half of a surrogate pair
      {"\xf4\x90\x80\x80", '"' + bad + bad + bad + bad + '"'},  // beyond U+10FFFF
      {"\xe2\x88x", '"' + bad + bad + "x\""},
  };
  for (const auto& [bytes, json] : cases) EXPECT_EQ(json_of(bytes), json);
}

// A parser that accepts only valid UTF-8 accepts every name, and returns valid names unchanged.
TEST(JsonText, AnyBytesCanBeParsed) {
  std::mt19937 random(1);
  // Bytes at the limits of UTF-8's ranges are drawn more often.
  const std::string often = "\"\\\n\x01\x7f\x80\xbf\xc0\xc2\xe0\xa0\xed\x9f\xf0\x90\xf4\x8f\xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(random() % 12, ' ');
    for (char& byte : bytes)
      byte = static_cast<char>(random() % 3 == 0 ? random() % 256 : often[random() % often.size()]);
    const std::string json = json_of(bytes);
    const auto read = nlohmann::json::parse(json, nullptr, false);
    ASSERT_TRUE(read.is_string()) << json;
    const std::string text = read.get<std::string>();
    EXPECT_EQ(json_of(text), json);
    if (text.find("\xef\xbf\xbd") == std::string::npos) {
      EXPECT_EQ(text, bytes) << json;
    }
  }
}

TEST(JsonText, TimesAreInMicrosecondsWithThreeDecimals) {
  EXPECT_EQ(microseconds(0), "0.000");
  EXPECT_EQ(microseconds(1), "0.001");
  EXPECT_EQ(microseconds(12'345), "12.345");
  EXPECT_EQ(microseconds(1'000'050), "1000.050");
  EXPECT_EQ(microseconds(-1'500), "-1.500");
}

}  // namespace
}  // namespace libhvd
