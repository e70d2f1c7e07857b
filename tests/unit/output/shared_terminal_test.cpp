#include "output/shared_terminal.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

class SharedTerminalTest : public testing::Test {
 protected:
  SharedTerminalTest() { terminal_.set_raw(true); }

  void other(std::string_view lines) {
    terminal_.lines().append(lines);
    terminal_.weave();
  }

  // Returns the bytes that were written since the last call.
  std::string shown() {
    std::string bytes(queue_.view());
    queue_.clear();
    return bytes;
  }

  ByteQueue queue_;
  SharedTerminal terminal_{queue_, [] { return 20; }};
};

TEST_F(SharedTerminalTest, DoesNotChangeTheBytesOfTheRank) {
  const std::string_view bytes("a\0\x1b[2J\xff\r\nb", 11);
  terminal_.write(bytes);
  EXPECT_EQ(shown(), bytes);
}

TEST_F(SharedTerminalTest, OtherLinesStartAtTheBeginningOfALine) {
  terminal_.write("text\r\n");
  other("[0] one\n[0] two\n");
  terminal_.write("more");
  EXPECT_EQ(shown(), "text\r\n[0] one\r\n[0] two\r\nmore");
}

TEST_F(SharedTerminalTest, LineEndsWithNewlineOnlyOutsideRawMode) {
  terminal_.set_raw(false);
  other("[0] one\n");
  EXPECT_EQ(shown(), "[0] one\n");
}

TEST_F(SharedTerminalTest, RewritesAnUnfinishedLineBelowOtherLines) {
  terminal_.write("text\r\n(Pdb) \x1b[1mp x\a");
  shown();
  other("[0] one\n");
  EXPECT_EQ(shown(), "\r\x1b[K\x1b[0m[0] one\r\n(Pdb) \x1b[1mp x");
  terminal_.write(" + 1");
  other("[0] two\n");
  EXPECT_EQ(shown(), " + 1\r\x1b[K\x1b[0m[0] two\r\n(Pdb) \x1b[1mp x + 1");
}

TEST_F(SharedTerminalTest, DoesNotErasePartsOfALineThatItCannotRewrite) {
  for (const std::string_view line : {"more than twenty columns", "a\x1b[Ab", "a\x1b[6n",
                                      "a\x1b"
                                      "7b"}) {
    terminal_.write("\r\n");
    terminal_.write(line);
    shown();
    other("[0] one\n");
    EXPECT_EQ(shown(), "\r\n[0] one\r\n") << line;
  }
}

TEST_F(SharedTerminalTest, DoesNotSplitACharacterOrAnEscapeSequence) {
  for (const std::string_view text : {"\xc3\xa4", "\xe2\x82\xac", "\x1b[31m", "\x1b]0;title\x07",
                                      "\x1b]0;title\x1b\\", "\x1b(B"}) {
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      terminal_.write("\r\n");
      terminal_.write(text.substr(0, cut));
      shown();
      other("[0] one\n");
      EXPECT_EQ(shown(), "") << text << ", cut at " << cut;
      terminal_.write(text.substr(cut));
      EXPECT_NE(shown().find("[0] one\r\n"), std::string::npos) << text << ", cut at " << cut;
    }
  }
}

TEST_F(SharedTerminalTest, HoldsLinesBackDuringAFullScreenProgram) {
  terminal_.write("\x1b[?1049h\x1b[H~\r\n");
  shown();
  other("[0] one\n");
  EXPECT_EQ(shown(), "");
  terminal_.write("\x1b[?1049l");
  EXPECT_EQ(shown(), "\x1b[?1049l\r\n[0] one\r\n");
}

TEST_F(SharedTerminalTest, DropsTheOldestOfTooManyWaitingLinesWithANote) {
  terminal_.write("\x1b[?1049h");
  const std::string line(1023, 'x');
  constexpr std::size_t kLines = SharedTerminal::kMostWaiting / 1024 + 3;
  for (std::size_t i = 0; i < kLines; ++i) other(line + "\n");
  shown();
  terminal_.write("\x1b[?1049l");
  const auto bytes = shown();
  EXPECT_NE(bytes.find("hvdrun: note: 3 lines of other ranks left out"), std::string::npos)
      << bytes.substr(0, 200);
  EXPECT_EQ(static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), '\n')), kLines - 3 + 2);
}

TEST_F(SharedTerminalTest, ResetsTheModesThatTheRankLeaves) {
  terminal_.write("\x1b[?1049h\x1b[?25l\x1b[?1;2004h\x1b=\x1b[31m~");
  EXPECT_EQ(terminal_.undo(), "\x1b[?1l\x1b[?25h\x1b[?1049l\x1b[?2004l\x1b>\x1b[0m");
  shown();
  terminal_.leave();
  EXPECT_EQ(shown(), "\x1b[?1l\x1b[?25h\x1b[?1049l\x1b[?2004l\x1b>\x1b[0m\r\n");
  EXPECT_EQ(terminal_.undo(), "");
  terminal_.leave();
  EXPECT_EQ(shown(), "");
}

TEST_F(SharedTerminalTest, ResetsNothingAfterARankThatResetItsModes) {
  terminal_.write("\x1b[?1049h\x1b[?25l\x1b=\x1b[31m~\x1b[m\x1b[?25h\x1b[?1049l\x1b>\r\n");
  EXPECT_EQ(terminal_.undo(), "");
  shown();
  terminal_.leave();
  EXPECT_EQ(shown(), "");
}

TEST_F(SharedTerminalTest, ShowsTheStatusOnlyAtTheBeginningOfALine) {
  terminal_.status({"step 1"});
  terminal_.draw_status();
  EXPECT_EQ(shown(), "\x1b[?7lstep 1\x1b[?7h\r");
  EXPECT_EQ(terminal_.undo(), kUndoStatus);
  terminal_.write("(Pdb) ");
  terminal_.draw_status();
  EXPECT_EQ(shown(), "\r\x1b[K\x1b[J(Pdb) ");
  EXPECT_EQ(terminal_.undo(), "");
  terminal_.write("c\r\n");
  terminal_.draw_status();
  EXPECT_EQ(shown(), "c\r\n\x1b[?7lstep 1\x1b[?7h\r");
}

}  // namespace
}  // namespace hvdrun
