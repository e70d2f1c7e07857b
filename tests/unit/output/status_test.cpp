// Tests the status line, which is always below all output.
#include "fixtures.hpp"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr int kWide = 80;
const std::string kEraseProgress = "\r\x1b[K";
const std::string kEraseStatus = "\r\x1b[K\x1b[J";
const std::string kUp = "\x1b[A";

// Returns the bytes that draw the status.
std::string drawn(const std::string& text) {
  return "\x1b[?7l" + text + "\x1b[?7h\r";
}

const std::vector<std::string> kTraining{"epoch 3/20", "step 1,204/9,380", "7,346 samples/s",
                                         "loss 0.12",  "12 % waiting",     "0:14 left"};

TEST(FitFields, DropsFieldsFromTheRight) {
  const std::string all =
      "epoch 3/20 · step 1,204/9,380 · 7,346 samples/s · loss 0.12 · 12 % waiting · 0:14 left";
  EXPECT_EQ(fit_fields(kTraining, 200), all);
  EXPECT_EQ(fit_fields(kTraining, display_columns(all)), all);
  EXPECT_EQ(fit_fields(kTraining, display_columns(all) - 1),
            "epoch 3/20 · step 1,204/9,380 · 7,346 samples/s · loss 0.12 · 12 % waiting");
  EXPECT_EQ(fit_fields(kTraining, 39), "epoch 3/20 · step 1,204/9,380");
  EXPECT_EQ(fit_fields(kTraining, 10), "epoch 3/20");
  EXPECT_EQ(fit_fields(kTraining, 9), "");
  EXPECT_EQ(fit_fields(kTraining, -1), "");
  EXPECT_EQ(fit_fields({}, 80), "");
}

TEST(FitFields, NeverExceedsAnyWidth) {
  for (int columns = 0; columns < 120; ++columns)
    ASSERT_LE(display_columns(fit_fields(kTraining, columns)), columns);
}

TEST(FitFields, MeasuresWideCharactersAsTwoColumns) {
  const std::vector<std::string> fields{"損失", "精度"};
  EXPECT_EQ(fit_fields(fields, 11), "損失 · 精度");
  EXPECT_EQ(fit_fields(fields, 10), "損失");
  EXPECT_EQ(fit_fields(fields, 3), "");
}

TEST(Status, StaysBelowAllOutput) {
  TestConsole console({.columns = kWide});
  console.status({"step 1"});
  EXPECT_EQ(console.out(), drawn("step 1"));
  console.status({"step 1"});
  EXPECT_EQ(console.out(), "") << "the same status is already shown";
  console.status({"step 2"});
  EXPECT_EQ(console.out(), kEraseStatus + drawn("step 2"));
  console.write(0, "hello\nworld\n");
  console.write(1, "x\n", Stream::err);
  console.note("hvdrun: a note");
  console.end_turn();
  EXPECT_EQ(console.out(),
            kEraseStatus + "[0] hello\n[0] world\n[1] x\nhvdrun: a note\n" + drawn("step 2"));
  console.status({});
  EXPECT_EQ(console.out(), kEraseStatus);
  console.write(0, "end\n");
  console.end_turn();
  EXPECT_EQ(console.out(), "[0] end\n");
}

TEST(Status, WaitsForTheEndOfAPrompt) {
  TestConsole console({.columns = kWide});
  console.status({"step 1"});
  console.write(0, "name: ");
  console.pass(milliseconds(200));
  console.end_turn();
  EXPECT_EQ(console.out(), drawn("step 1") + kEraseStatus + "[0] name: ");
  console.status({"step 2"});
  EXPECT_EQ(console.out(), "");
  console.write(0, "thanks\n");
  console.end_turn();
  EXPECT_EQ(console.out(), "thanks\n" + drawn("step 2"));
}

TEST(Status, StaysBelowARanksProgress) {
  TestConsole console({.columns = kWide});
  console.status({"step 1"});
  console.write(0, "50%\r");
  console.pass(milliseconds(200));
  console.end_turn();
  EXPECT_EQ(console.out(), drawn("step 1") + kEraseStatus + "[0] 50%\n" + drawn("step 1"));
  console.write(0, "60%\r");
  console.pass(milliseconds(200));
  console.end_turn();
  EXPECT_EQ(console.out(), kEraseStatus + kUp + kEraseProgress + "[0] 60%\n" + drawn("step 1"));
  console.status({"step 2"});
  EXPECT_EQ(console.out(), kEraseStatus + kUp + "\n" + drawn("step 2"))
      << "the progress stays above it";
  console.write(0, "\r100%\n");
  console.end_turn();
  EXPECT_EQ(console.out(), kEraseStatus + kUp + kEraseProgress + "[0] 100%\n" + drawn("step 2"));
  console.write(0, "70%\r");
  console.pass(milliseconds(200));
  console.end_turn();
  console.out();
  console.status({});
  EXPECT_EQ(console.out(), kEraseStatus + kUp);
  console.write(1, "x\n");
  EXPECT_EQ(console.out(), kEraseProgress + "[1] x\n");
}

TEST(Status, FitsAfterAResize) {
  TestConsole console({.columns = kWide});
  console.status(kTraining);
  console.out();
  console.resize(40);
  EXPECT_EQ(console.out(), kEraseStatus + drawn("epoch 3/20 · step 1,204/9,380"));
  console.resize(9);
  EXPECT_EQ(console.out(), kEraseStatus);
  console.resize(kWide);
  EXPECT_EQ(console.out(),
            drawn("epoch 3/20 · step 1,204/9,380 · 7,346 samples/s · loss 0.12 · 12 % waiting"));
}

TEST(Status, IsNotShownIfItCannotBeErased) {
  TestConsole pipe;
  pipe.status({"starting"});
  pipe.write(0, "x\n");
  pipe.end_turn();
  pipe.status({});
  EXPECT_EQ(pipe.out(), "[0] x\n");
  TestConsole narrow({.columns = 8});
  narrow.status({"starting"});
  EXPECT_EQ(narrow.out(), "") << "a full row moves the cursor to the next";
  TestConsole unknown({.columns = 0});
  unknown.status({"starting"});
  EXPECT_EQ(unknown.out(), "");
}

}  // namespace
}  // namespace hvdrun
