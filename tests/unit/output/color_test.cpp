#include "output/color.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

struct ColorCase {
  const char* what;
  ColorMode mode;
  bool terminal;
  TerminalEnvironment environment;
  bool colored;
};

TEST(Color, IsDecidedByOptionTerminalAndEnvironment) {
  const ColorCase cases[] = {
      {"a terminal", ColorMode::automatic, true, {"xterm", nullptr, nullptr}, true},
      {"a pipe", ColorMode::automatic, false, {"xterm", nullptr, nullptr}, false},
      {"NO_COLOR", ColorMode::automatic, true, {"xterm", "1", nullptr}, false},
      {"an empty NO_COLOR", ColorMode::automatic, true, {"xterm", "", nullptr}, true},
      {"TERM=dumb", ColorMode::automatic, true, {"dumb", nullptr, nullptr}, false},
      {"no TERM", ColorMode::automatic, true, {nullptr, nullptr, nullptr}, false},
      {"an empty TERM", ColorMode::automatic, true, {"", nullptr, nullptr}, false},
      {"FORCE_COLOR, to a pipe",
       ColorMode::automatic,
       false,
       {nullptr, nullptr, nullptr, true},
       true},
      {"FORCE_COLOR and NO_COLOR",
       ColorMode::automatic,
       true,
       {"xterm", "1", nullptr, true},
       false},
      {"FORCE_COLOR and never", ColorMode::never, true, {"xterm", nullptr, nullptr, true}, false},
      {"always, to a pipe", ColorMode::always, false, {"dumb", "1", nullptr}, true},
      {"never, on a terminal", ColorMode::never, true, {"xterm", nullptr, nullptr}, false},
  };
  for (const ColorCase& test : cases)
    EXPECT_EQ(wants_color(test.mode, test.terminal, test.environment), test.colored) << test.what;
}

TEST(Color, EveryRankHasAColorThatDiffersFromTheNext) {
  for (const bool many : {false, true}) {
    for (int rank = 0; rank < 100; ++rank) {
      EXPECT_NE(label_color(rank, many), label_color(rank + 1, many));
      EXPECT_EQ(label_color(rank, many).substr(0, 2), "\x1b[");
    }
  }
}

TEST(Color, Has256ColorsIfTheTerminalSaysSo) {
  EXPECT_TRUE((TerminalEnvironment{"xterm-256color", nullptr, nullptr}.has_256_colors()));
  EXPECT_TRUE((TerminalEnvironment{"xterm", nullptr, "truecolor"}.has_256_colors()));
  EXPECT_FALSE((TerminalEnvironment{"xterm", nullptr, nullptr}.has_256_colors()));
}

}  // namespace
}  // namespace hvdrun
