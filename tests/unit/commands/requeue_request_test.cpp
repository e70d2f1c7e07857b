#include "commands/requeue_request.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

BatchSpec requeued(std::string signal, std::string time = "") {
  BatchSpec batch;
  batch.requeue = true;
  batch.slurm_options.push_back({"signal", std::move(signal)});
  if (!time.empty()) batch.slurm_options.push_back({"time", std::move(time)});
  return batch;
}

std::string refusal(const BatchSpec& batch, const Environment& environment = {}) {
  const auto checked = check_requeue_request(batch, environment);
  return checked ? "" : checked.error().message;
}

TEST(RequeueRequest, UsualOneIsRight) {
  for (const auto* time : {"", "10", "1:00:00", "0", "UNLIMITED"}) {
    const auto checked = check_requeue_request(requeued("B:USR1@120", time), {});
    ASSERT_TRUE(checked) << time;
    EXPECT_THAT(*checked, IsEmpty()) << time;
  }
}

TEST(RequeueRequest, AnythingIsRightWithoutRequeue) {
  auto batch = requeued("TERM@60", "1");
  batch.requeue = false;
  batch.sbatch_arguments = {"--no-requeue"};
  EXPECT_EQ(refusal(batch), "");
}

TEST(RequeueRequest, SignalThatDefeatsItIsAnError) {
  EXPECT_THAT(refusal(requeued("USR1@60")), HasSubstr("--signal USR1@60: SLURM sends it to steps"));
  EXPECT_THAT(refusal(requeued("B:TERM@60")), HasSubstr("SIGTERM ends the job"));
  auto batch = requeued("B:USR1@120");
  batch.sbatch_arguments = {"--signal=TERM@60"};
  EXPECT_THAT(refusal(batch), HasSubstr("--sbatch-arg=--signal=TERM@60"));
  EXPECT_THAT(refusal(requeued("B:USR1@120"), {{"SBATCH_SIGNAL", "B:TERM@9"}}),
              HasSubstr("SBATCH_SIGNAL=B:TERM@9"));
}

TEST(RequeueRequest, LimitWithoutTimeBeforeTheSignalIsAnError) {
  EXPECT_THAT(refusal(requeued("B:USR1@120", "1")), HasSubstr("--requeue with --time 1: "));
  auto batch = requeued("B:USR1@120", "10");
  batch.sbatch_arguments = {"-t1"};
  EXPECT_THAT(refusal(batch), HasSubstr("--sbatch-arg=-t1: "));
  EXPECT_THAT(refusal(requeued("B:USR1@120", "10"), {{"SBATCH_TIMELIMIT", "2"}}),
              HasSubstr("SBATCH_TIMELIMIT=2: "));
  const auto checked = check_requeue_request(requeued("B:USR1@120", "3"), {});
  ASSERT_TRUE(checked);
  EXPECT_THAT(*checked, ElementsAre(HasSubstr("--requeue with --time 3: ")));
}

TEST(MissedSignal, IsThatOfStepsInAJobOnOneNode) {
  auto batch = requeued("USR1@60");
  batch.requeue = false;
  BatchShape shape;
  shape.nodes = 1;
  EXPECT_THAT(missed_signal_warning(batch, shape, {}),
              HasSubstr("--signal USR1@60: SLURM sends it to steps of srun only, so on one node no "
                        "rank gets it; type --signal B:USR1@60"));
  shape.nodes = 2;
  EXPECT_EQ(missed_signal_warning(batch, shape, {}), "") << "the agents are steps";
  shape.nodes.reset();
  EXPECT_THAT(
      missed_signal_warning(batch, shape, {{"SBATCH_SIGNAL", "R:10@9"}}),
      HasSubstr("SBATCH_SIGNAL=R:10@9: SLURM sends it to steps of srun only, so on one node "
                "no rank gets it; type --signal RB:10@9"));
  for (const auto* signal : {"B:USR1@60", "NONE", ""}) {
    batch.slurm_options = {{"signal", signal}};
    EXPECT_EQ(missed_signal_warning(batch, shape, {}), "") << signal;
  }
  EXPECT_EQ(missed_signal_warning(requeued("USR1@60"), shape, {}), "");
}

TEST(RequeueRequest, NoRequeueIsAnError) {
  auto batch = requeued("B:USR1@120");
  EXPECT_THAT(refusal(batch, {{"SBATCH_NO_REQUEUE", "1"}}), HasSubstr("SBATCH_NO_REQUEUE"));
  batch.sbatch_arguments = {"--no-requeue"};
  EXPECT_THAT(refusal(batch), HasSubstr("--sbatch-arg=--no-requeue"));
}

}  // namespace
}  // namespace hvdrun
