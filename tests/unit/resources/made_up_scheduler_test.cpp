// Tests that a scheduler that hvdrun has never heard of needs one row: its job's hosts, the user's
// choice among them, its devices, its signals and its login nodes.
#include "schedulers/made_up/made_up_scheduler.hpp"

#include "fake_machine.hpp"
#include "resources/chosen_devices.hpp"
#include "resources/find_allocation.hpp"
#include "resources/login_node.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Environment kJob{{"QUEUER_JOB", "q7"}, {"QUEUER_HOSTS", "a b c"}, {"QUEUER_GPUS", "4"}};

Result<Allocation> find(const JobSpec& spec = {}) {
  return find_allocation(spec, {}, kJob, fake_machine(8, 4, 1, "a"), {}, made_up_schedulers());
}

JobSpec named(const std::string& hosts) {
  JobSpec spec;
  spec.hosts = *parse_host_requests(hosts, "-H");
  return spec;
}

TEST(AMadeUpScheduler, GivesTheHostsOfItsJob) {
  const auto found = find();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->from, HostSource::scheduler);
  EXPECT_EQ(found->started_by, StartedBy::ssh);
  EXPECT_EQ(found->source, "Queuer job q7");
  ASSERT_EQ(found->hosts.size(), 3u);
  EXPECT_TRUE(found->hosts[0].is_this_machine);
  EXPECT_EQ(found->hosts[0].slots_source, "4 GPUs");
  EXPECT_EQ(found->hosts[2].slots_source, "4 GPUs, QUEUER_GPUS");
}

TEST(AMadeUpScheduler, LetsTheUserChooseAmongItsHosts) {
  const auto found = find(named("beta,a"));
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->hosts.size(), 2u);
  EXPECT_EQ(found->hosts[0].address, "b");
  EXPECT_THAT(find(named("z")).error().message,
              HasSubstr("not among the hosts of Queuer job q7, which are a,b,c; leave -H out: in a "
                        "Queuer job hvdrun finds the hosts"));
}

TEST(AMadeUpScheduler, CutsTheUsersDevicesToItsOwn) {
  Environment environment{{"QUEUER_JOB", "q7"},
                          {"QUEUER_GPU_NUMBERS", "4-5"},
                          {"CUDA_VISIBLE_DEVICES", "0,3"},
                          {"ROCR_VISIBLE_DEVICES", "4,5"}};
  const auto chosen = choose_devices(environment, made_up_schedulers());
  EXPECT_EQ(environment.at("CUDA_VISIBLE_DEVICES"), "4");
  EXPECT_THAT(chosen.notes, ElementsAre(HasSubstr("Queuer gave the job 4,5 of this host")));
}

TEST(AMadeUpScheduler, HasVariablesSignalsAndLoginNodesOfItsOwn) {
  EXPECT_TRUE(describes_process("QUEUER_TASK_ID", made_up_schedulers()));
  EXPECT_FALSE(describes_process("QUEUER_HOSTS", made_up_schedulers()));
  EXPECT_TRUE(is_scheduler(4711, made_up_schedulers()));
  EXPECT_EQ(*check_login_node({}, {}, {{"QUEUER_CONF", "x"}}, "/", made_up_schedulers()),
            "without an allocation the ranks run on this host, which runs no jobs of Queuer: a "
            "login node? queue-it submits a job");
}

}  // namespace
}  // namespace hvdrun
