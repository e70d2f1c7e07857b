#include "commands/seen_failure.hpp"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Returns the failure in this output, which comes byte by byte.
std::string seen_in(std::string_view output) {
  SeenFailure seen;
  for (std::size_t at = 0; at < output.size(); ++at) seen.take(output.substr(at, 1));
  SeenFailure at_once;
  at_once.take(output);
  EXPECT_EQ(seen.text(), at_once.text());
  return seen.text();
}

constexpr std::string_view kFailed =
    "hvdrun: note: job stopped after 3 s; exit code 3\n"
    "hvdrun: error: rank 1 on n1 failed: exit code 3 (pid 12, after 3 s)\n"
    "hvdrun:   it was in allreduce\n";
constexpr std::string_view kSucceeded = "hvdrun: note: 2 ranks succeeded in 0.09 s (CPU 0.00 s)\n";

TEST(SeenFailure, IsWhatTheLastHvdrunSaid) {
  const std::string failed(kFailed);
  EXPECT_EQ(seen_in(failed + "done\n"), "rank 1 on n1 failed: exit code 3 (pid 12, after 3 s)");
  EXPECT_EQ(seen_in(failed + "hvdrun: error: the program \"x\" was not found\n"),
            "the program \"x\" was not found");
  EXPECT_EQ(seen_in(failed + std::string(kSucceeded)), "");
  EXPECT_EQ(seen_in("[0] hvdrun: error: no\nx hvdrun: error: no\nhvdrun: error: cut"), "");
}

TEST(SeenFailure, KeepsTheBeginningOfALongLine) {
  const auto text = seen_in("hvdrun: error: " + std::string(1u << 20, 'a') + "\n");
  EXPECT_LT(text.size(), 1024u);
  EXPECT_EQ(text.substr(0, 3), "aaa");
}

}  // namespace
}  // namespace hvdrun
