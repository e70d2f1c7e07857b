#include "channels/srun_output.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

struct LineCase {
  const char* line;
  std::optional<std::size_t> task;
  const char* text;
};

TEST(SrunOutput, DistinguishesMessagesOfSrunAndOfTasks) {
  for (const auto& [line, task, text] :
       {LineCase{"srun: error: Unable to create step", {}, "Unable to create step"},
        LineCase{"srun: fatal: no configuration", {}, "no configuration"},
        LineCase{"srun: Job 3 step creation temporarily disabled",
                 {},
                 "Job 3 step creation "
                 "temporarily disabled"},
        LineCase{"2: hvdrun: boo", 2, "hvdrun: boo"}, LineCase{" 7: boo\r", 7, "boo"},
        LineCase{"007: ", 7, ""}, LineCase{"2 boo", {}, "2 boo"}, LineCase{"", {}, ""},
        LineCase{"99999999999999999999999: x", {}, "99999999999999999999999: x"},
        LineCase{"boo", {}, "boo"}}) {
    const auto parsed = parse_srun_line(line);
    EXPECT_EQ(parsed.task, task) << line;
    EXPECT_EQ(parsed.text, text) << line;
  }
}

TEST(SrunOutput, ReadsTheEndsOfTasks) {
  auto end = parse_task_end("n3: task 2: Exited with exit code 2");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->hosts, "n3");
  EXPECT_EQ(end->tasks, (std::vector<std::size_t>{2}));
  EXPECT_EQ(end->how, "Exited with exit code 2");
  end = parse_task_end("n[1-3,7]: tasks 0-2,6: Killed");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->hosts, "n[1-3,7]");
  EXPECT_EQ(end->tasks, (std::vector<std::size_t>{0, 1, 2, 6}));
  EXPECT_EQ(end->how, "Killed");
}

TEST(SrunOutput, IgnoresOtherMessages) {
  for (const char* text :
       {"", ": task", "n1: task", "n1: task : x", "n1: task 1", "n1: tasks 2-1: x",
        "n1: tasks 1-: x", "n1: tasks 0-99999999999: x", "n1: tasks 0-5000000: x", "n1: task 1x: y",
        "step: task launch failed", "Job 3 step creation temporarily disabled"})
    EXPECT_FALSE(parse_task_end(text)) << text;
}

TEST(SrunReader, SplitsLinesThatArriveInPieces) {
  const std::string text = "srun: one\n2: two\r\n\nlast";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    SrunReader reader;
    std::vector<SrunLine> lines;
    for (std::size_t at = 0; at < text.size(); at += piece)
      for (auto& line : reader.feed(std::string_view(text).substr(at, piece)))
        lines.push_back(std::move(line));
    for (auto& line : reader.finish()) lines.push_back(std::move(line));
    ASSERT_EQ(lines.size(), 4u) << piece;
    EXPECT_EQ(lines[0].text, "one");
    EXPECT_EQ(lines[1].text, "two");
    EXPECT_EQ(lines[1].task, 2u);
    EXPECT_EQ(lines[2].text, "");
    EXPECT_EQ(lines[3].text, "last");
  }
}

TEST(SrunReader, LimitsTheLengthOfALine) {
  SrunReader reader;
  EXPECT_TRUE(reader.feed(std::string(1u << 20, 'x')).empty());
  const auto lines = reader.feed("\nnext\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_LE(lines[0].text.size(), 4096u);
  EXPECT_EQ(lines[1].text, "next");
}

}  // namespace
}  // namespace hvdrun
