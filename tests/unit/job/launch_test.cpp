#include "job/launch.hpp"

#include "protocol/frame.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

Plan two_hosts() {
  Plan plan;
  plan.allocation.hosts.resize(2);
  plan.allocation.hosts[0].name = "n1";
  plan.allocation.hosts[0].is_this_machine = true;
  plan.allocation.hosts[1].name = "n2";
  auto& placement = plan.placement;
  placement.size = 3;
  placement.hosts = {{"n1", {}}, {"n2", {}}};
  for (int rank = 0; rank < 3; ++rank) {
    RankPlacement placed;
    placed.rank = rank;
    placed.local_rank = rank % 2;
    placed.cpus = {rank};
    placement.hosts[rank < 2 ? 0 : 1].ranks.push_back(placed);
  }
  return plan;
}

JobContext context(const Environment& caller) {
  JobContext context;
  context.environment = caller;
  context.limits = {{RLIMIT_CORE, {0, 1}}};
  return context;
}

std::vector<int> receivers(const InputSpec& input) {
  JobSpec spec;
  spec.input = input;
  return input_receivers(spec, 3);
}

TEST(InputReceivers, FollowOptionStdin) {
  EXPECT_EQ(receivers({InputSpec::To::none, 0}), std::vector<int>{});
  EXPECT_EQ(receivers({InputSpec::To::rank, 2}), std::vector{2});
  EXPECT_EQ(receivers({InputSpec::To::all, 0}), (std::vector{0, 1, 2}));
}

TEST(LaunchMessage, PutsTheWrapCommandBeforeTheProgram) {
  JobSpec spec;
  spec.program = "/bin/train";
  spec.command = {"train", "--fast"};
  spec.wrap.command = "perf stat -o $RANK";
  auto message = launch_message(spec, two_hosts(), {}, context({}), 0);
  EXPECT_EQ(message.program, "/bin/sh");
  EXPECT_EQ(message.arguments,
            (std::vector<std::string>{"/bin/sh", "-c", "exec perf stat -o $RANK \"$@\"",
                                      "hvdrun --wrap", "/bin/train", "--fast"}));
  spec.wrap.ranks.emplace().add(1, 2);
  message = launch_message(spec, two_hosts(), {}, context({}), 0);
  EXPECT_EQ(message.arguments[2],
            "case $HVD_RANK in 1|2) exec perf stat -o $RANK \"$@\";; esac; exec \"$@\"");
}

TEST(LaunchMessage, HoldsTheAgentsOwnRanksAndAllHosts) {
  JobSpec spec;
  spec.program = "/bin/train";
  spec.command = {"train", "--fast"};
  spec.input.rank = 2;
  spec.stop.grace = std::chrono::milliseconds(300);
  const JobIdentity identity{"id", "key", "n1", "29500"};
  const auto first = launch_message(spec, two_hosts(), identity, context({{"HOME", "/h"}}), 0);
  const auto second = launch_message(spec, two_hosts(), identity, context({{"HOME", "/h"}}), 1);

  ASSERT_EQ(first.hosts.size(), 2u);
  EXPECT_EQ(first.hosts[1].ranks, std::vector{2});
  EXPECT_EQ(first.arguments, spec.command);
  EXPECT_EQ(first.kill_signal, SIGTERM);
  EXPECT_EQ(first.grace.count(), 300);
  ASSERT_EQ(first.ranks.size(), 2u);
  EXPECT_EQ(first.ranks[1].cpus, std::vector{1});
  EXPECT_FALSE(first.ranks[0].wants_input);

  EXPECT_EQ(second.host_index, 1);
  ASSERT_EQ(second.ranks.size(), 1u);
  EXPECT_TRUE(second.ranks[0].wants_input);
}

TEST(PortsToHold, AreThreeOnTheHostOfRank0AndNoneElsewhere) {
  const auto placement = two_hosts().placement;
  JobSpec spec;
  EXPECT_EQ(ports_to_hold(spec, placement, 0).count, 3);
  EXPECT_EQ(ports_to_hold(spec, placement, 0).master_port, 0);
  EXPECT_EQ(ports_to_hold(spec, placement, 1).count, 0);
  spec.environment = {{"MASTER_PORT", "29611"}};
  EXPECT_EQ(ports_to_hold(spec, placement, 0).master_port, 29611) << "the user has set the port";
}

TEST(LaunchMessage, NamesTheGpusThatTheAgentMonitors) {
  Plan plan = two_hosts();
  plan.allocation.hosts[0].inventory.emplace();
  for (const auto& [visible, uuid] : std::vector<std::pair<std::string, std::string>>{
           {"0", "GPU-a"}, {"1", "GPU-b"}, {"MIG-c", "GPU-c"}, {"3", ""}}) {
    Gpu gpu;
    gpu.visible = visible;
    gpu.uuid = uuid;
    if (visible == "MIG-c") gpu.watched_as = visible;
    plan.allocation.hosts[0].inventory->gpus.push_back(gpu);
  }
  plan.allocation.hosts[0].inventory->gpu_vendor = "NVIDIA";
  auto& ranks = plan.placement.hosts[0].ranks;
  const auto gpus = [&](const JobSpec& spec) {
    return launch_message(spec, plan, {}, context({}), 0).gpus;
  };
  EXPECT_EQ(gpus({}), std::vector<std::string>{}) << "no rank has a GPU";
  ranks[0].gpu = 1;
  ranks[1].gpu = 2;
  EXPECT_EQ(gpus({}), (std::vector<std::string>{"GPU-b", "MIG-c"}));
  EXPECT_EQ(launch_message({}, plan, {}, context({}), 0).gpu_vendor, "NVIDIA");
  JobSpec spec;
  spec.ranks_per_host = 1;
  EXPECT_EQ(gpus(spec), (std::vector<std::string>{"GPU-a", "GPU-b", "MIG-c"}));
  EXPECT_TRUE(launch_message(spec, plan, {}, context({}), 1).gpus.empty())
      << "this host has no inventory";
}

TEST(DeviceNames, ComeFromTheHostsInventory) {
  Host host;
  const std::vector<GpuUse> uses{{"MIG-c"}, {"GPU-b"}, {"GPU-z"}};
  EXPECT_EQ(with_device_names(uses, host)[0].device, "") << "the host has no inventory";
  auto& gpus = host.inventory.emplace().gpus;
  gpus.resize(2);
  gpus[0].visible = "0";
  gpus[0].uuid = "GPU-b";
  gpus[0].name = "NVIDIA H200";
  gpus[0].pci_address = "0000:3b:00.0";
  gpus[1].visible = gpus[1].watched_as = "MIG-c";
  gpus[1].uuid = "GPU-b";
  const auto named = with_device_names(uses, host);
  EXPECT_EQ(named[0].device, "GPU 1 (MIG-c)");
  EXPECT_EQ(named[1].device, "GPU 0 (NVIDIA H200, 0000:3b:00.0)");
  EXPECT_EQ(named[2].device, "");
}

TEST(LaunchMessage, LargerThanAFrameIsAUsageErrorWithItsSize) {
  LaunchMessage message;
  message.ranks.resize(3);
  EXPECT_TRUE(pack_for("n1", message));
  message.environment = {std::string(kMaxPayload, 'x')};
  const auto packed = pack_for("n1", message);
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().exit_code, kExitUsage);
  EXPECT_NE(packed.error().message.find("for n1 (3 ranks) has 65 MB, and the limit is 64 MB"),
            std::string::npos)
      << packed.error().message;
}

TEST(LaunchMessage, LeavesHostSpecificVariablesToARemoteHost) {
  JobSpec spec;
  spec.environment = {{"HOSTNAME", "mine"}};
  const Environment caller{
      {"CUDA_VISIBLE_DEVICES", "0"}, {"HIP_VISIBLE_DEVICES", "0"}, {"HOME", "/h"},
      {"PALS_LOCAL_RANKID", "0"},    {"PBS_NODENUM", "0"},         {"SSH_TTY", "/dev/pts/1"}};
  const auto here = launch_message(spec, two_hosts(), {}, context(caller), 0);
  EXPECT_TRUE(here.host_variables.empty());
  EXPECT_TRUE(here.limits.empty());
  EXPECT_EQ(here.environment,
            (std::vector<std::string>{"CCL_ATL_TRANSPORT=ofi", "CCL_PROCESS_LAUNCHER=torchrun",
                                      "CUDA_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES=0", "HOME=/h",
                                      "HOSTNAME=mine", "PBS_NODENUM=0", "PYTHONUNBUFFERED=1",
                                      "SSH_TTY=/dev/pts/1"}));
  const auto there = launch_message(spec, two_hosts(), {}, context(caller), 1);
  EXPECT_EQ(there.environment,
            (std::vector<std::string>{"CCL_ATL_TRANSPORT=ofi", "CCL_PROCESS_LAUNCHER=torchrun",
                                      "HOME=/h", "HOSTNAME=mine", "PYTHONUNBUFFERED=1"}));
  EXPECT_EQ(there.limits.size(), 1u);
  const auto& own = there.host_variables;
  for (const auto* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
    EXPECT_NE(std::find(own.begin(), own.end(), name), own.end()) << "the agent has it";
  EXPECT_EQ(std::find(own.begin(), own.end(), "HOSTNAME"), own.end()) << "-x sets it";
}

// Returns the value of a variable of a new rank; "" without it.
std::string variable_of(const LaunchRank& rank, const std::string& name) {
  const auto at =
      std::ranges::find_if(rank.environment, [&](const auto& one) { return one.first == name; });
  return at == rank.environment.end() ? "" : at->second;
}

TEST(NewRank, HasANumberForItsHostAmongThoseWithRanks) {
  Plan plan = two_hosts();
  for (const char* name : {"n3", "n4"}) {
    plan.allocation.hosts.emplace_back().name = name;
    plan.placement.hosts.push_back({name, {}});
    plan.placement.hosts.back().spares.emplace_back();
  }
  common::MemberNumbers numbers;
  numbers.rank = 2;
  numbers.size = 3;
  numbers.node_rank = 1;
  numbers.node_count = 2;
  const auto rank =
      new_rank({}, plan, {}, context({}), 3, plan.placement.hosts[3].spares[0], numbers);
  EXPECT_EQ(variable_of(rank, "HVD_NODE_RANK"), "1");
  EXPECT_EQ(variable_of(rank, "HVD_NODE_COUNT"), "2");
  EXPECT_EQ(variable_of(rank, "HVD_HOSTNAME"), "n4");
  EXPECT_EQ(variable_of(rank, "HVD_LOCAL_SIZE"), "1");
}

}  // namespace
}  // namespace hvdrun
