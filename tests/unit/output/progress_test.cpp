// Tests progress bars and other texts that end with "\r", with a clock that the test sets.
#include "fixtures.hpp"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kColumns = 80;
const std::string kErase = "\r\x1b[K";

TEST(Progress, ShowsOnlyTheLastTextOfALine) {
  TestConsole console;
  console.write(0, "10%\r50%\r100%\nnext\n");
  console.write(1, "\r10%\r50%\r100%\nnext\n");
  EXPECT_EQ(console.out(), "[0] 100%\n[0] next\n[1] 100%\n[1] next\n");
}

// What tqdm writes for a bar below another one (position=1), as Lightning has it.
TEST(Progress, NestedBarsAreShownAsOne) {
  TestConsole console;
  console.write(0, "\repoch 0");
  for (int i = 0; i < 100; ++i) {
    console.write(0, "\n\r  batch " + std::to_string(i));
    console.write(0, "\x1b[A");
    console.pass(milliseconds(10));
  }
  console.write(0, "\repoch 1");
  EXPECT_EQ(console.out(), "[0] epoch 0\n");
  console.pass(milliseconds(300));
  EXPECT_EQ(console.out(), "[0] epoch 1\n");
  console.write(0, "\n\r  batch 100\x1b[A\n\nnext\n");
  EXPECT_EQ(console.out(), "[0]   batch 100\n[0] next\n");
  TestConsole terminal({.columns = kColumns});
  terminal.write(0, "\repoch 0\n\r  batch 0\x1b[A");
  terminal.pass(milliseconds(200));
  terminal.write(0, "\n\r  batch 1\x1b[A");
  terminal.pass(milliseconds(200));
  EXPECT_EQ(terminal.out(), "[0] epoch 0\n[0]   batch 0" + kErase + "[0]   batch 1")
      << "no sequence of the rank moves the cursor";
}

// As a terminal shows them, but for what was printed before the first move up.
TEST(Progress, LastTextOfEachRowOfBarsIsALine) {
  const auto shown = [](std::string_view text) {
    TestConsole console;
    console.write(0, text);
    console.close(0);
    return console.out();
  };
  EXPECT_EQ(shown("one\ntwo\x1b[A\rTHREE\n"), "[0] one\n[0] THREE\n[0] two\n");
  EXPECT_EQ(shown("one\ntwo\x1b[A\rTHREE\nnew two\n"), "[0] one\n[0] THREE\n[0] new two\n");
  EXPECT_EQ(shown("\router 0\n\rinner 0\x1b[A\n\rinner 1\x1b[A\router 1\n\r       \r\x1b[A\n"),
            "[0] outer 0\n[0] outer 1\n")
      << "the inner bar was erased";
  EXPECT_EQ(shown("last words\r\x1b[A"), "[0] last words\n");
  EXPECT_EQ(shown("last words\x1b[A\r"), "[0] last words\n");
  EXPECT_EQ(shown("last words\x1b[A\r\n"), "[0] last words\n");
  EXPECT_EQ(shown("a line\n\x1b[A\rlast words"), "[0] a line\n[0] last words\n");
}

TEST(Progress, ReturnBeforeANewlineEndsTheLine) {
  TestConsole console;
  console.write(0, "windows\r\ntext\r\n");
  console.write(0, "split\r");
  console.write(0, "\n\r\n");
  EXPECT_EQ(console.out(), "[0] windows\r\n[0] text\r\n[0] split\r\n[0] \r\n");
}

TEST(Progress, LastTextOfAClosedStreamIsALine) {
  TestConsole console;
  console.write(0, "10%\r20%\r");
  console.write(1, "\r10%\r20%");
  console.close(0);
  console.close(1);
  EXPECT_EQ(console.out(), "[0] 20%\n[1] 20%\n");
}

TEST(Progress, TerminalRedrawsItFiveTimesPerSecond) {
  TestConsole console({.columns = kColumns});
  int updates = 0;
  std::string shown;
  for (int i = 0; i < 100; ++i) {
    console.write(0, "\r" + std::to_string(i) + "%");
    console.pass(milliseconds(20));
    const std::string now = console.out();
    updates += !now.empty();
    shown += now;
  }
  EXPECT_EQ(updates, 10) << "five per second for two seconds";
  EXPECT_EQ(shown.find('\n'), std::string::npos);
  EXPECT_EQ(shown.substr(0, 7), "[0] 9%" + kErase.substr(0, 1));
  console.write(0, "\r100%\nnext\n");
  EXPECT_EQ(console.out(), kErase + "[0] 100%\n[0] next\n");
}

TEST(Progress, OtherOutputReplacesItOnATerminal) {
  TestConsole console({.columns = kColumns});
  console.write(0, "50%\r");
  console.pass(milliseconds(200));
  EXPECT_EQ(console.out(), "[0] 50%");
  console.write(1, "hello\n");
  EXPECT_EQ(console.out(), kErase + "[1] hello\n");
  console.write(1, "\r7%");
  console.write(0, "60%\r");
  console.pass(milliseconds(200));
  EXPECT_EQ(console.out(), "[1] 7%" + kErase + "[0] 60%");
  console.note("hvdrun: note");
  EXPECT_EQ(console.out(), kErase + "hvdrun: note\n");
  console.write(0, "\n");
  EXPECT_EQ(console.out(), "[0] 60%\r\n")
      << "the last text is a line, although a note came between";
}

TEST(Progress, DoesNotRedrawAnUnchangedText) {
  TestConsole console({.columns = kColumns});
  console.write(0, "50%\r");
  console.pass(seconds(1));
  EXPECT_EQ(console.out(), "[0] 50%");
  EXPECT_FALSE(console.waits());
}

TEST(Progress, ErasesAPromptThatTheRankOverwrites) {
  TestConsole console({.columns = kColumns});
  console.write(0, "loading");
  console.pass(milliseconds(200));
  console.write(0, "\rloaded\n");
  EXPECT_EQ(console.out(), "[0] loading" + kErase + "[0] loaded\n");
}

TEST(Progress, DoesNotRedrawATextWiderThanTheTerminal) {
  TestConsole console({.columns = 20});
  console.write(0, std::string(16, '#') + "\r");
  console.pass(milliseconds(200));
  console.write(1, "x\n");
  EXPECT_EQ(console.out(), "[0] " + std::string(16, '#') + "\n[1] x\n");
}

TEST(Progress, WithoutATerminalIsALineAtTheFirstPauseAndThenEvery10Seconds) {
  TestConsole console;
  console.write(0, "\r1%");
  console.pass(milliseconds(200));
  EXPECT_EQ(console.out(), "[0] 1%\n");
  std::string shown;
  for (int i = 1; i <= 300; ++i) {
    console.write(0, "\r" + std::to_string(i) + " s");
    console.pass(seconds(1));
    shown += console.out();
  }
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 30) << shown;
  EXPECT_EQ(shown.substr(0, 9), "[0] 10 s\n");
  console.write(0, "\rdone\n");
  EXPECT_EQ(console.out(), "[0] done\n");
}

TEST(Progress, DoesNotDelayThePromptsOfOthers) {
  TestConsole console;
  console.write(0, "\r1%");
  console.pass(milliseconds(200));
  console.write(0, "\r2%");
  console.pass(milliseconds(400));
  EXPECT_EQ(console.out(), "[0] 1%\n");
  console.write(1, "input: ");
  console.pass(milliseconds(200));
  EXPECT_EQ(console.out(), "[1] input: ");
}

TEST(Progress, WithoutATerminalIsShownRarelyEvenWithoutAPause) {
  TestConsole console;
  std::string shown;
  for (int i = 0; i < 1500; ++i) {
    console.write(0, std::to_string(i) + "\r");
    console.pass(milliseconds(10));
    shown += console.out();
  }
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 1) << shown;
}

TEST(Progress, WithoutATerminalDoesNotRepeatTheLastTextAtTheEnd) {
  TestConsole console;
  console.write(0, "50%\r");
  console.pass(milliseconds(200));
  console.write(0, "\n");
  EXPECT_EQ(console.out(), "[0] 50%\n");
  console.write(0, "50%\r");
  console.pass(milliseconds(200));
  console.close(0);
  EXPECT_EQ(console.out(), "[0] 50%\n");
}

TEST(Progress, ShowsNothingForReturnsAlone) {
  TestConsole console;
  for (int i = 0; i < 1000; ++i) console.write(0, "\r\r\r");
  console.pass(seconds(30));
  console.close(0);
  EXPECT_EQ(console.out(), "");
}

TEST(DisplayColumns, AreThoseThatATerminalShows) {
  EXPECT_EQ(display_columns("abc"), 3);
  EXPECT_EQ(display_columns("\x1b[38;5;32m[0]\x1b[0m "), 4);
  EXPECT_EQ(display_columns("\xe2\x96\x88\xe2\x96\x8f"), 2) << "block elements";
  EXPECT_EQ(display_columns("\xe4\xb8\xad"), 2) << "a wide character";
  EXPECT_EQ(display_columns("\t"), 8);
  EXPECT_EQ(display_columns("\x1b["), 0) << "an incomplete sequence";
}

}  // namespace
}  // namespace hvdrun
