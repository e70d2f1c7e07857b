#include "channels/srun_failure.hpp"

#include "wait_status.hpp"

#include <csignal>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::string text_of(const std::vector<SrunFailure>& failures) {
  std::string text;
  for (const auto& failure : failures)
    text += fmt::format("{}: {}\n", fmt::join(failure.hosts, ","), failure.message);
  return text;
}

// Explains the ends of tasks in what srun printed.
std::string explain(const std::vector<std::string>& printed) {
  std::vector<SrunLine> lines;
  std::vector<SrunTaskEnd> ends;
  for (const auto& text : printed) {
    lines.push_back(parse_srun_line(text));
    if (lines.back().task) continue;
    if (auto end = parse_task_end(lines.back().text)) ends.push_back(*end);
  }
  return text_of(explain_task_ends(ends, lines, "/opt/hvdrun"));
}

struct TaskCase {
  std::vector<std::string> printed;
  const char* expected;
};

class TaskEnds : public testing::TestWithParam<TaskCase> {};

TEST_P(TaskEnds, AreExplained) {
  EXPECT_EQ(explain(GetParam().printed), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Srun, TaskEnds,
    testing::Values(
        TaskCase{
            {"srun: error: n4: task 3: Exited with exit code 2",
             "srun: error: n2: task 1: Exited with exit code 2",
             "3: slurmstepd: error: execve(): /opt/hvdrun: No such file or directory",
             "1: slurmstepd-n2: error: execve(): /opt/hvdrun: No such file or directory"},
            "n4,n2: hvdrun not found at /opt/hvdrun; install the same version there, or say where "
            "it is with --agent-path\n"},
        TaskCase{{"0: slurmstepd: error: execve(): /opt/hvdrun: Permission denied",
                  "srun: error: n[1-2]: tasks 0-1: Exited with exit code 13",
                  "1: slurmstepd: error: execve(): /opt/hvdrun: Permission denied"},
                 "n[1-2]: /opt/hvdrun cannot be executed there: Permission denied\n"},
        TaskCase{
            {"srun: error: n1: task 0: Exited with exit code 8",
             "0: slurmstepd: error: execve(): /opt/hvdrun: Exec format error"},
            "n1: hvdrun there is built for another kind of processor (slurmstepd: error: execve():"
            " /opt/hvdrun: Exec format error)\n"},
        TaskCase{
            {"srun: error: n1: task 0: Exited with exit code 127",
             "0: /opt/hvdrun: error while loading shared libraries: libfmt.so.9: cannot open"},
            "n1: a library of hvdrun is missing there (/opt/hvdrun: error while loading shared "
            "libraries: libfmt.so.9: cannot open)\n"},
        TaskCase{{"srun: error: n1: task 0: Exited with exit code 2",
                  "0: hvdrun: unknown option --internal-agent"},
                 "n1: hvdrun there is another version; install the same on both (hvdrun: unknown "
                 "option --internal-agent)\n"},
        TaskCase{
            {"0: hvdrun: hvdrun here is version 0.0.1, the launcher's is 0.1.0: install the same "
             "on both",
             "srun: error: n1: task 0: Exited with exit code 2"},
            "n1: hvdrun here is version 0.0.1, the launcher's is 0.1.0: install the same on "
            "both\n"},
        TaskCase{{"1: hvdrun: cannot reach the launcher (10.0.0.1 port 4: no answer)",
                  "srun: error: n2: task 1: Exited with exit code 125",
                  "srun: error: n3: task 2: Killed"},
                 "n2: cannot reach the launcher (10.0.0.1 port 4: no answer)\n"
                 "n3: the agent ended before it had connected, without a word (Killed)\n"},
        TaskCase{
            {"srun: error: Task launch for StepId=1.0 failed on node n3: Communication connection "
             "failure",
             "srun: error: Application launch failed: Communication connection failure",
             "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
             "0: slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-28T10:00:00 ***",
             "srun: error: n[1-2]: tasks 0-1: Killed"},
            "n3: SLURM's slurmd does not answer there (Task launch for StepId=1.0 failed on node "
            "n3: Communication connection failure)\n"},
        TaskCase{
            {"0: slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-28T10:00:00 DUE TO "
             "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
             "srun: error: Node failure on n3", "srun: error: n1: task 0: Killed"},
            "n3: SLURM cannot use it (Node failure on n3)\n"},
        TaskCase{
            {"0: slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-11-28T10:00:00 ***",
             "srun: error: n1: task 0: Terminated"},
            ": SLURM has cancelled the step (slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT "
            "2026-11-28T10:00:00 ***)\n"}));

struct StepCase {
  int wait_status;
  std::vector<std::string> printed;
  const char* expected;
};

class SrunEnds : public testing::TestWithParam<StepCase> {};

TEST_P(SrunEnds, AreExplained) {
  std::vector<SrunLine> lines;
  for (const auto& text : GetParam().printed) lines.push_back(parse_srun_line(text));
  EXPECT_EQ(text_of({explain_srun_failure(GetParam().wait_status, lines)}), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Srun, SrunEnds,
    testing::Values(
        StepCase{exited(1),
                 {"srun: error: Unable to confirm allocation for job 99999: Invalid job id "
                  "specified",
                  "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 99999"},
                 ": the allocation has ended, or SLURM_JOB_ID names another (Unable to confirm "
                 "allocation for job 99999: Invalid job id specified)\n"},
        StepCase{exited(1),
                 {"srun: error: Unable to create step for job 14: Job/step already completing or "
                  "completed"},
                 ": the allocation is ending (cancelled, or out of time) (Unable to create step "
                 "for job 14: Job/step already completing or completed)\n"},
        StepCase{exited(1),
                 {"srun: Job allocation 14 has been revoked"},
                 ": the allocation has ended (cancelled, or out of time) (Job allocation 14 has "
                 "been revoked)\n"},
        StepCase{exited(1),
                 {"srun: cluster configuration lacks support for cpu binding",
                  "srun: error: Unable to create step for job 14: Requested node configuration is "
                  "not available"},
                 ": SLURM cannot start a step there; is each host in the allocation, and up? "
                 "(`sinfo -N -l`) (Unable to create step for job 14: Requested node configuration "
                 "is not available)\n"},
        StepCase{exited(1),
                 {"srun: error: Unable to create step for job 14: Invalid generic resource (gres) "
                  "specification"},
                 ": the allocation has fewer GPUs on these hosts than were asked for (Unable to "
                 "create step for job 14: Invalid generic resource (gres) specification)\n"},
        StepCase{exited(1),
                 {"srun: Job 14 step creation temporarily disabled, retrying (Requested nodes are "
                  "busy)"},
                 ": other steps hold the hosts; end them, or start them with --overlap (Job 14 "
                 "step creation temporarily disabled, retrying (Requested nodes are busy))\n"},
        StepCase{exited(1),
                 {"srun: error: Unable to contact slurm controller (connect failure)"},
                 ": SLURM's controller does not answer; `scontrol ping` must work here (Unable to "
                 "contact slurm controller (connect failure))\n"},
        StepCase{exited(1),
                 {"srun: fatal: Could not establish a configuration source"},
                 ": SLURM's configuration is not found here; is SLURM_CONF missing? (Could not "
                 "establish a configuration source)\n"},
        StepCase{exited(1),
                 {"srun: error: Task launch for StepId=1.0 failed on node n3: Communication "
                  "connection failure",
                  "srun: error: Application launch failed: Communication connection failure"},
                 "n3: SLURM's slurmd does not answer there (Task launch for StepId=1.0 failed on "
                 "node n3: Communication connection failure)\n"},
        StepCase{exited(1),
                 {"srun: error: Node failure on n3"},
                 "n3: SLURM cannot use it (Node failure on n3)\n"},
        StepCase{exited(1),
                 {"srun: unrecognized option '--overlap'", "srun: Try \"srun --help\""},
                 ": this SLURM's srun does not know an option that hvdrun needs (20.11 or later "
                 "does); env -u SLURM_JOB_ID hvdrun -H HOST,HOST uses ssh (unrecognized option "
                 "'--overlap')\n"},
        StepCase{exited(1),
                 {"srun: cluster configuration lacks support for cpu binding", "srun: new words"},
                 ": srun: new words\n"},
        StepCase{exited(3), {}, ": srun ended with exit code 3 and no message\n"},
        StepCase{SIGKILL, {"2: hvdrun: boo"}, ": srun was killed by SIGKILL\n"}));

TEST(SrunWaiting, IsExplainedByTheMessageOfSrun) {
  EXPECT_EQ(explain_srun_waiting({}), "srun was started, and the agent has not connected");
  EXPECT_EQ(explain_srun_waiting({parse_srun_line("srun: Job 14 step creation temporarily "
                                                  "disabled, retrying (Requested nodes are "
                                                  "busy)"),
                                  parse_srun_line("0: hello")}),
            "other steps hold the hosts; end them, or start them with --overlap (Job 14 step "
            "creation temporarily disabled, retrying (Requested nodes are busy))");
}

}  // namespace
}  // namespace hvdrun
