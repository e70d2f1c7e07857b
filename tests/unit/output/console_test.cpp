// Tests lines and unfinished lines with a clock that the test sets.
#include "fixtures.hpp"

#include <string>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Console, EveryLineGetsItsLabel) {
  TestConsole console;
  console.write(0, "a\nbb\n");
  console.write(1, "\nccc\n");
  EXPECT_EQ(console.out(), "[0] a\n[0] bb\n[1] \n[1] ccc\n");
}

TEST(Console, LineInPiecesIsShownWholeAfterLinesOfOtherRanks) {
  TestConsole console;
  console.write(0, "one ");
  console.write(1, "other\n");
  console.write(0, "line\nnext");
  EXPECT_EQ(console.out(), "[1] other\n[0] one line\n");
  console.write(0, "\n");
  EXPECT_EQ(console.out(), "[0] next\n");
}

TEST(Console, OneRankHasNoLabelUnlessAskedFor) {
  TestConsole plain({.ranks = 1});
  plain.write(0, "a\nb");
  plain.close(0);
  EXPECT_EQ(plain.out(), "a\nb\n");
  TestConsole asked({.ranks = 1, .spec = {.label = "rank"}});
  asked.write(0, "a\n");
  EXPECT_EQ(asked.out(), "[0] a\n");
}

TEST(Console, KeepsStdoutAndStderrSeparateOnTwoDescriptors) {
  TestConsole console({.shared = false});
  console.write(0, "out\n");
  console.write(0, "err\n", Stream::err);
  console.note("hvdrun: note");
  EXPECT_EQ(console.out(), "[0] out\n");
  EXPECT_EQ(console.err(), "[0] err\nhvdrun: note\n");
}

TEST(Console, KeepsTheOrderOfStdoutAndStderrOnOneDescriptor) {
  TestConsole console;
  console.write(0, "1\n");
  console.write(0, "2\n", Stream::err);
  console.note("hvdrun: 3");
  console.write(0, "4\n");
  EXPECT_EQ(console.out(), "[0] 1\n[0] 2\nhvdrun: 3\n[0] 4\n");
}

TEST(Console, OnlyChosenRanksAreShown) {
  TestConsole console({.ranks = 4, .spec = {.only_ranks = *RankSet::parse("0,2-3")}});
  for (int rank = 0; rank < 4; ++rank) console.write(rank, "x\npart");
  for (int rank = 0; rank < 4; ++rank) console.close(rank);
  EXPECT_EQ(console.out(), "[0] x\n[2] x\n[3] x\n[0] part\n[2] part\n[3] part\n");
}

TEST(Console, LastLineWithoutNewlineGetsOne) {
  TestConsole console;
  console.write(0, "the end");
  console.write(1, "another");
  console.close(0);
  console.close(1);
  console.close(1);
  EXPECT_EQ(console.out(), "[0] the end\n[1] another\n");
}

TEST(Console, AnyBytesPassUnchanged) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte)
    if (byte != '\n' && byte != '\r') bytes += static_cast<char>(byte);
  TestConsole console;
  console.write(1, bytes + "\n" + bytes);
  console.close(1);
  EXPECT_EQ(console.out(), "[1] " + bytes + "\n[1] " + bytes + "\n");
}

TEST(Console, ShowsAPromptAfterAShortPauseAndThenTheRest) {
  TestConsole console;
  console.write(0, "input: ");
  EXPECT_EQ(console.out(), "");
  console.pass(milliseconds(199));
  EXPECT_EQ(console.out(), "");
  console.pass(milliseconds(1));
  EXPECT_EQ(console.out(), "[0] input: ");
  EXPECT_FALSE(console.waits());
  console.write(0, "thanks\nnext\n");
  EXPECT_EQ(console.out(), "thanks\n[0] next\n");
}

TEST(Console, WaitsLongerForTheRestOfALineInAFile) {
  TestConsole console({.terminal = false});
  console.write(0, "half a ");
  console.pass(milliseconds(1999));
  EXPECT_EQ(console.out(), "");
  console.write(0, "line\n");
  EXPECT_EQ(console.out(), "[0] half a line\n");
  console.write(0, "never ended");
  console.pass(milliseconds(2000));
  EXPECT_EQ(console.out(), "[0] never ended");
}

TEST(Console, NeverSplitsALineInsideACharacter) {
  const std::string star = "\u2605", face = "\U0001F600";
  for (const bool terminal : {false, true}) {
    TestConsole console({.terminal = terminal});
    console.write(0, "a" + star + face.substr(0, 3));
    console.pass(milliseconds(2000));
    EXPECT_EQ(console.out(), "[0] a" + star);
    EXPECT_FALSE(console.waits());
    console.write(0, face.substr(3) + "b\n");
    EXPECT_EQ(console.out(), face + "b\n");
    console.write(0, star.substr(0, 1));
    console.pass(milliseconds(2000));
    EXPECT_EQ(console.out(), "");
    console.close(0);
    EXPECT_EQ(console.out(), "[0] " + star.substr(0, 1) + "\n")
        << "invalid UTF-8 is shown at the end";
    console.write(0, "\xff\xff");
    console.pass(milliseconds(2000));
    EXPECT_EQ(console.out(), "[0] \xff\xff");
    console.close(0);
    EXPECT_EQ(console.out(), "\n");
  }
  TestConsole console;
  const std::string before(LineAssembler::kMaxLine - 1, 'z');
  console.write(0, before + star);
  console.write(0, "\n");
  EXPECT_TRUE(console.out() == "[0] " + before + "\n[0] " + star + "\n");
}

TEST(Console, AnotherRanksLineStartsBelowAPrompt) {
  TestConsole console;
  console.write(0, "input: ");
  console.pass(milliseconds(200));
  console.write(1, "hello\n");
  EXPECT_EQ(console.out(), "[0] input: \n[1] hello\n");
  console.write(0, "rest\n");
  EXPECT_EQ(console.out(), "[0] rest\n");
}

TEST(Console, NoteStartsBelowAPrompt) {
  TestConsole console;
  console.write(0, "input: ");
  console.pass(milliseconds(200));
  console.note("hvdrun: rank 1 has ended");
  EXPECT_EQ(console.out(), "[0] input: \nhvdrun: rank 1 has ended\n");
}

TEST(Console, TwoPromptsAreOnTwoLines) {
  TestConsole console;
  console.write(0, "input: ");
  console.write(1, "input: ");
  console.pass(milliseconds(200));
  EXPECT_EQ(console.out(), "[0] input: \n[1] input: ");
  console.write(0, "\n");  // the other prompt has already ended this line
  EXPECT_EQ(console.out(), "");
  console.write(1, "\n");
  EXPECT_EQ(console.out(), "\n");
}

TEST(Console, PromptEndsWithItsStream) {
  TestConsole console;
  console.write(0, "input: ");
  console.pass(milliseconds(200));
  console.close(0);
  EXPECT_EQ(console.out(), "[0] input: \n");
}

TEST(Console, ShowsAGrowingRowOfDots) {
  TestConsole console;
  std::string shown;
  for (int i = 0; i < 10; ++i) {
    console.write(0, ".");
    console.pass(milliseconds(100));
    shown += console.out();
  }
  EXPECT_EQ(shown.substr(0, 8), "[0] ....");
  console.write(0, "\n");
  EXPECT_EQ(shown + console.out(), "[0] ..........\n");
}

TEST(Console, WaitsForALongLineWhileItGrows) {
  TestConsole console;
  const std::string piece(70'001, 'x');
  for (int i = 0; i < 10; ++i) {
    console.write(0, piece);
    console.pass(milliseconds(150));
    console.write(1, "y\n");
  }
  EXPECT_EQ(console.out().find('x'), std::string::npos);
  console.write(0, "\n");
  EXPECT_EQ(console.out().size(), 10 * piece.size() + 5);
}

TEST(Console, FullStdioBufferIsNoPrompt) {
  TestConsole console;
  console.write(0, std::string(4096, 'x'));
  console.pass(seconds(60));
  console.write(1, "y\n");
  EXPECT_EQ(console.out(), "[1] y\n");
  console.write(0, "the rest\n");
  EXPECT_EQ(console.out(), "[0] " + std::string(4096, 'x') + "the rest\n");
}

TEST(Console, DoesNotBreakLinesDuringBackPressure) {
  TestConsole console;
  console.write(0, "half ");
  console.pass(seconds(10), true);
  console.write(0, "and half\n");
  EXPECT_EQ(console.out(), "[0] half and half\n");
}

TEST(Console, WaitsForTheRestOfALineAfterAStallOfTheLoop) {
  TestConsole console;
  console.write(0, "half ");
  console.stall(seconds(10));
  EXPECT_EQ(console.out(), "");
  console.write(0, "and half\n");
  EXPECT_EQ(console.out(), "[0] half and half\n");
}

TEST(Console, ShowsAnUnfinishedLineEvenIfEveryTurnIsLate) {
  TestConsole console;
  console.write(0, "prompt");
  console.stall(seconds(1));
  console.stall(seconds(1));
  EXPECT_EQ(console.out(), "[0] prompt");
}

TEST(Console, LabelHasTheTimeOfTheLinesFirstByte) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  TestConsole console({.spec = {.timestamps = true}});
  console.set_wall(OutputTime(milliseconds(1001)));
  console.write(0, "a\nb");
  console.set_wall(OutputTime(milliseconds(2002)));
  console.write(0, "b\nc\n");
  EXPECT_EQ(console.out(),
            "1970-01-01T00:00:01.001 [0] a\n1970-01-01T00:00:01.001 [0] bb\n"
            "1970-01-01T00:00:02.002 [0] c\n");
}

TEST(Console, LineOf10MegabytesIsShownWhole) {
  TestConsole console;
  const std::string line(10'000'000, 'z');
  for (std::size_t at = 0; at < line.size(); at += 65'536)
    console.write(0, std::string_view(line).substr(at, 65'536));
  console.write(0, "\n");
  EXPECT_EQ(console.out(), "[0] " + line + "\n");
}

TEST(Console, BreaksALineAboveTheLimitIntoLabelledPieces) {
  TestConsole console;
  const std::string mega(1024 * 1024, 'z');
  for (int i = 0; i < 40; ++i) console.write(0, mega);
  console.write(1, "other\n");
  console.write(0, "\n");
  const std::string piece = "[0] " + std::string(LineAssembler::kMaxLine, 'z') + "\n";
  EXPECT_EQ(console.out(),
            piece + piece + "[1] other\n[0] " + std::string(8 * mega.size(), 'z') + "\n");
}

TEST(Console, LineOfExactlyTheLimitHasNoEmptyLineAfterIt) {
  TestConsole console;
  console.write(0, std::string(LineAssembler::kMaxLine, 'z'));
  console.write(0, "z");
  console.close(0);
  EXPECT_EQ(console.out(), "[0] " + std::string(LineAssembler::kMaxLine, 'z') + "\n[0] z\n");
  console.write(1, std::string(LineAssembler::kMaxLine, 'z'));
  console.write(1, "\n");
  EXPECT_EQ(console.out(), "[1] " + std::string(LineAssembler::kMaxLine, 'z') + "\n");
}

TEST(Console, LimitsTheMemoryOfAllUnfinishedLines) {
  TestConsole console({.ranks = 100});
  const std::string mega(1024 * 1024, 'z');
  std::size_t shown = 0;
  for (int rank = 0; rank < 100; ++rank) {
    console.write(rank, mega);
    shown += console.out().size();
  }
  EXPECT_GE(shown, 36 * mega.size());
  for (int rank = 0; rank < 100; ++rank) console.write(rank, "\n");
  const std::string rest = console.out();
  EXPECT_EQ(static_cast<std::size_t>(std::count(rest.begin(), rest.end(), 'z')) + 36 * mega.size(),
            100 * mega.size());
}

}  // namespace
}  // namespace hvdrun
