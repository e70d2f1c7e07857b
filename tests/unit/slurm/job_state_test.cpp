#include "slurm/job_state.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(JobState, EachStateHasAPhase) {
  for (const char* word : {"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
    EXPECT_EQ(phase_of(word), JobPhase::pending) << word;
  for (const char* word :
       {"CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "SOMETHING_NEW", ""})
    EXPECT_EQ(phase_of(word), JobPhase::running) << word;
  for (const char* word : {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
                           "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"})
    EXPECT_EQ(phase_of(word), JobPhase::ended) << word;
}

TEST(JobState, HasATextWithTheReason) {
  EXPECT_EQ(state_text("PENDING", "Resources"), "pending (Resources)");
  EXPECT_EQ(state_text("PENDING", "None"), "pending");
  EXPECT_EQ(state_text("OUT_OF_MEMORY", "OutOfMemory"), "out of memory");
  EXPECT_EQ(explain_reason("ReqNodeNotAvail, UnavailableNodes:n1"),
            "a host that it asks for is not available");
  EXPECT_EQ(explain_reason("QOSMaxJobsPerUserLimit"),
            "a limit of its QOS: sacctmgr show qos lists them");
  EXPECT_EQ(explain_reason("PartitionConfig"),
            "asks for more hosts, CPUs, GPUs, memory or time than the partition gives to a job: it "
            "never starts as it is");
  EXPECT_EQ(explain_reason("SomethingNew"), "");
  EXPECT_TRUE(depends_on_partition("PartitionNodeLimit"));
  EXPECT_FALSE(depends_on_partition("Resources"));
}

}  // namespace
}  // namespace hvdrun
