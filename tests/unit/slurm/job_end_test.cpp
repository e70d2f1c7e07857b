#include "slurm/job_end.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST(JobEnd, HasAnExitCodeAndATextForEachState) {
  const struct {
    const char* state;
    std::optional<ExitStatus> exit;
    int code;
    const char* words;
  } cases[] = {
      {"COMPLETED", ExitStatus{0, 0}, 0, "succeeded"},
      {"FAILED", ExitStatus{3, 0}, 3, "failed with exit code 3"},
      {"FAILED", ExitStatus{0, 9}, 137, "was ended by SIGKILL"},
      {"FAILED", ExitStatus{0, 53}, 125, "could not open its output file"},
      {"FAILED", ExitStatus{0, 0}, 125, "its script may not have started"},
      {"FAILED", std::nullopt, 125, "its script may not have started"},
      {"CANCELLED", ExitStatus{0, 15}, 143, "was cancelled"},
      {"CANCELLED", ExitStatus{0, 0}, 143, "was cancelled"},
      {"CANCELLED", ExitStatus{0, 9}, 137, "was cancelled"},
      {"TIMEOUT", ExitStatus{0, 15}, 124, "reached its time limit"},
      {"DEADLINE", ExitStatus{0, 15}, 124, "reached its deadline"},
      {"NODE_FAIL", ExitStatus{0, 0}, 125, "one of its hosts failed"},
      {"BOOT_FAIL", ExitStatus{0, 0}, 125, "did not boot"},
      {"PREEMPTED", ExitStatus{0, 15}, 143, "make room for another job"},
      {"OUT_OF_MEMORY", ExitStatus{0, 125}, 137, "its memory was used up"},
      {"", std::nullopt, 125, "SLURM no longer knows how"},
  };
  for (const auto& each : cases) {
    const JobEnd end{"12", each.state, each.exit, {}};
    EXPECT_EQ(exit_code_of(end), each.code) << each.state;
    EXPECT_THAT(end_text(end), HasSubstr(each.words)) << each.state;
  }
}

TEST(JobEnd, IsReadFromSacctsOutput) {
  const auto ends = parse_accounting(
      "12_1|COMPLETED|0:0|00:00:03\n12_[3-4]|PENDING|0:0|00:00:00\n12_2|CANCELLED by 1000|0:15|"
      "1-00:00:01\nnonsense\n|||\n");
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[1].id, "12_2");
  EXPECT_EQ(ends[1].state, "CANCELLED");
  EXPECT_EQ(ends[1].exit, (ExitStatus{0, 15}));
  EXPECT_EQ(ends[1].elapsed, seconds(86401));
}

}  // namespace
}  // namespace hvdrun
