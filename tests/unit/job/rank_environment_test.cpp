#include "job/rank_environment.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Returns a placement of three ranks on n1 and one on n2.
Placement uneven() {
  Placement placement;
  placement.size = 4;
  placement.hosts = {{"n1", {}}, {"n2", {}}};
  for (int local = 0; local < 3; ++local) {
    RankPlacement rank;
    rank.rank = local;
    rank.local_rank = local;
    rank.cross_size = local == 0 ? 2 : 1;
    placement.hosts[0].ranks.push_back(rank);
  }
  RankPlacement last;
  last.rank = 3;
  last.cross_rank = 1;
  last.cross_size = 2;
  last.device = 0;
  last.visible_devices = "GPU-1";
  placement.hosts[1].ranks.push_back(last);
  placement.hosts[1].gpu_variables.visible = "CUDA_VISIBLE_DEVICES";
  return placement;
}

std::map<std::string, std::string> environment_of_last(const Environment& caller,
                                                       const JobSpec& spec = {}) {
  const auto placement = uneven();
  JobIdentity job{"id", "key", "10.0.0.1", "29511", 2};
  job.rendezvous_port = "40000";
  job.jax_port = "40001";
  job.ports = {{"10.0.0.1", "10.0.0.2"}, {{"1", "2", "3", "4", "5", "6"}, {"7", "8"}}};
  std::map<std::string, std::string> map;
  const auto variables =
      rank_environment(caller, spec, job, placement, 1, placement.hosts[1].ranks[0]);
  for (const auto& variable : variables) map.emplace(variable.name, variable.value);
  EXPECT_EQ(map.size(), variables.size()) << "a variable is set twice";
  return map;
}

bool has(const std::vector<std::string>& variables, const std::string& variable) {
  return std::find(variables.begin(), variables.end(), variable) != variables.end();
}

TEST(RankEnvironment, SetsThePlaceOfTheRankInTheVariablesOfEveryLauncher) {
  auto got = environment_of_last({});
  const std::map<std::string, std::string> expected{{"HVD_RANK", "3"},
                                                    {"HVD_SIZE", "4"},
                                                    {"HVD_LOCAL_RANK", "0"},
                                                    {"HVD_LOCAL_SIZE", "1"},
                                                    {"HVD_NODE_RANK", "1"},
                                                    {"HVD_NODE_COUNT", "2"},
                                                    {"HVD_HOSTNAME", "n2"},
                                                    {"HVD_JOB_ID", "id"},
                                                    {"HVD_JOB_KEY", "key"},
                                                    {"HVD_LOCAL_DEVICE", "0"},
                                                    {"HVD_RESTART_COUNT", "2"},
                                                    {"HVD_PORT", "40000"},
                                                    {"RANK", "3"},
                                                    {"WORLD_SIZE", "4"},
                                                    {"LOCAL_RANK", "0"},
                                                    {"LOCAL_WORLD_SIZE", "1"},
                                                    {"GROUP_RANK", "1"},
                                                    {"NODE_RANK", "1"},
                                                    {"LOCAL_SIZE", "1"},
                                                    {"GROUP_WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "10.0.0.1"},
                                                    {"MASTER_PORT", "29511"},
                                                    {"JAX_COORDINATOR_PORT", "40001"},
                                                    {"HOROVOD_RANK", "3"},
                                                    {"HOROVOD_SIZE", "4"},
                                                    {"HOROVOD_LOCAL_RANK", "0"},
                                                    {"HOROVOD_LOCAL_SIZE", "1"},
                                                    {"HOROVOD_CROSS_RANK", "1"},
                                                    {"HOROVOD_CROSS_SIZE", "2"},
                                                    {"HOROVOD_HOSTNAME", "n2"},
                                                    {"OMPI_COMM_WORLD_RANK", "3"},
                                                    {"OMPI_COMM_WORLD_SIZE", "4"},
                                                    {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                                                    {"OMPI_COMM_WORLD_NODE_RANK", "0"},
                                                    {"CUDA_VISIBLE_DEVICES", "GPU-1"}};
  EXPECT_EQ(got, expected);
}

TEST(RankEnvironment, SlurmVariablesDescribeTheRank) {
  const auto got = environment_of_last({{"SLURM_JOB_ID", "9"}, {"SLURM_PROCID", "0"}});
  EXPECT_EQ(got.at("SLURM_PROCID"), "3");
  EXPECT_EQ(got.at("SLURM_LOCALID"), "0");
  EXPECT_EQ(got.at("SLURM_NODEID"), "1");
  EXPECT_EQ(got.at("SLURM_NTASKS"), "4");
}

TEST(RankEnvironment, SlurmVariablesDescribeTheJobNotTheAllocation) {
  JobSpec spec;
  spec.environment = {{"SLURM_NODEID", "mine"}};
  const auto got = environment_of_last({{"SLURM_JOB_ID", "9"}, {"SLURM_NNODES", "7"}}, spec);
  for (const char* name : {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"})
    EXPECT_EQ(got.at(name), "2") << name;
  for (const char* name : {"SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"})
    EXPECT_EQ(got.at(name), "n[1-2]") << name;
  EXPECT_EQ(got.at("SLURM_TASKS_PER_NODE"), "3,1");
  EXPECT_EQ(got.at("SLURM_STEP_NUM_TASKS"), "4");
  EXPECT_FALSE(got.contains("SLURM_NTASKS_PER_NODE")) << "the numbers of the hosts differ";
  EXPECT_EQ(got.at("SLURM_GTIDS"), "3");
  EXPECT_EQ(got.at("SLURM_DISTRIBUTION"), "block");
  EXPECT_EQ(got.at("SLURM_STEP_ID").size(), 4u) << "a number of the job's own";
  EXPECT_EQ(got.at("SLURM_STEPID"), got.at("SLURM_STEP_ID"));
  EXPECT_FALSE(got.contains("SLURM_NODEID")) << "-x sets it";
  EXPECT_FALSE(environment_of_last({}).contains("SLURM_NNODES")) << "outside SLURM";
}

// Returns JAX_LOCAL_DEVICE_IDS of a rank that sees four GPUs and is to use the third; "-" if unset.
std::string jax_devices_of(const Environment& caller, std::size_t ranks_of_host,
                           const JobSpec& spec = {}, int devices = 4) {
  RankPlacement rank;
  rank.device = devices == 1 ? 0 : 2;
  rank.devices = devices;
  Placement placement;
  placement.hosts = {{"n1", {rank}}, {"n2", std::vector(ranks_of_host, rank)}};
  const auto variable = jax_devices(caller, spec, placement, rank);
  return variable ? variable->value : "-";
}

TEST(RankEnvironment, GivesJaxAllDevicesIfEachHostHasOneRank) {
  JobSpec spec;
  EXPECT_EQ(jax_devices_of({}, 1, spec), "-");
  spec.frameworks = {Framework::jax};
  EXPECT_EQ(jax_devices_of({}, 1, spec), "0,1,2,3");
  EXPECT_EQ(jax_devices_of({}, 2, spec), "2") << "the other host has a rank for each GPU";
  EXPECT_EQ(jax_devices_of({}, 1, spec, 1), "0") << "it sees only its own";
  const Environment in_slurm{{"SLURM_JOB_ID", "7"}};
  EXPECT_EQ(jax_devices_of(in_slurm, 1), "0,1,2,3");
  EXPECT_EQ(jax_devices_of(in_slurm, 2), "2");
}

TEST(RankEnvironment, SetsFrameworkVariablesOnlyForNamedFrameworks) {
  JobSpec spec;
  spec.frameworks = {Framework::jax, Framework::mlx, Framework::tensorflow, Framework::torchrun};
  spec.max_restarts = 5;
  const auto placement = uneven();
  EXPECT_EQ(count_ports(spec, placement, 0), 3u + 2 * 3);
  EXPECT_EQ(count_ports(spec, placement, 1), 2u);
  spec.frameworks.erase(Framework::mlx);
  EXPECT_EQ(count_ports(spec, placement, 0), 3u + 3);
  const auto got = environment_of_last({}, spec);
  EXPECT_EQ(got.at("TF_CONFIG"),
            R"({"cluster":{"worker":["10.0.0.1:4","10.0.0.1:5","10.0.0.1:6","10.0.0.2:7"]},)"
            R"("task":{"type":"worker","index":3}})");
  EXPECT_EQ(got.at("JAX_COORDINATOR_ADDRESS"), "10.0.0.1:3");
  EXPECT_EQ(got.at("OMPI_MCA_orte_hnp_uri"), "4096.0;tcp://10.0.0.1:3");
  EXPECT_EQ(got.at("JAX_LOCAL_DEVICE_IDS"), "0");
  EXPECT_EQ(got.at("TORCHELASTIC_RUN_ID"), "id");
  EXPECT_EQ(got.at("TORCHELASTIC_RESTART_COUNT"), "2");
  EXPECT_EQ(got.at("TORCHELASTIC_MAX_RESTARTS"), "5");
  EXPECT_EQ(got.at("TORCHELASTIC_USE_AGENT_STORE"), "False") << "rank 0 listens on MASTER_PORT";
  EXPECT_EQ(got.at("ROLE_RANK"), "3");
  EXPECT_FALSE(got.contains("TORCHELASTIC_ERROR_FILE"));
  spec.output.directory = "/logs";
  EXPECT_EQ(environment_of_last({}, spec).at("TORCHELASTIC_ERROR_FILE"),
            "/logs/rank.0003/error.json");
  EXPECT_FALSE(environment_of_last({{"TORCHELASTIC_ERROR_FILE", "/theirs"}}, spec)
                   .contains("TORCHELASTIC_ERROR_FILE"));
  for (const char* name : {"TF_CONFIG", "JAX_COORDINATOR_ADDRESS", "TORCHELASTIC_RUN_ID"})
    EXPECT_FALSE(environment_of_last({}).contains(name)) << name;
  spec.environment = {{"TF_CONFIG", "mine"}};
  EXPECT_FALSE(environment_of_last({}, spec).contains("TF_CONFIG"));
}

TEST(FrameworkVariables, PutIpv6AddressesInBracketsBeforeThePort) {
  JobSpec spec;
  spec.frameworks = {Framework::jax, Framework::mlx, Framework::tensorflow};
  const auto placement = uneven();
  const RankPorts ports{{"fd80::11", "n2"},
                        {{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, {"10", "11"}}};
  std::map<std::string, std::string> got;
  for (const auto& variable :
       framework_variables(spec, ports, "id", 0, placement, placement.hosts[1].ranks[0]))
    got.emplace(variable.name, variable.value);
  EXPECT_EQ(got.at("TF_CONFIG"),
            R"({"cluster":{"worker":["[fd80::11]:4","[fd80::11]:5","[fd80::11]:6","n2:10"]},)"
            R"("task":{"type":"worker","index":3}})");
  EXPECT_EQ(got.at("JAX_COORDINATOR_ADDRESS"), "[fd80::11]:3");
  EXPECT_EQ(got.at("OMPI_MCA_orte_hnp_uri"), "4096.0;tcp6://[fd80::11]:3");
  EXPECT_EQ(got.at("NCCL_HOST_IP"), "fd80::11");
  EXPECT_EQ(got.at("NCCL_PORT"), "7");
}

TEST(RankEnvironment, OpenMpiRanksYieldWhereTheyShareCores) {
  const auto yields = [](bool shares, const Environment& caller, const JobSpec& spec = {}) {
    Placement placement = uneven();
    placement.hosts[0].shares_cores = !shares;  // another host's cores do not matter
    placement.hosts[1].shares_cores = shares;
    JobIdentity job{"id", "key", "10.0.0.1", "29511", 0};
    job.ports = {{"10.0.0.1", "10.0.0.2"}, {{"1", "2", "3", "4", "5", "6"}, {"7", "8"}}};
    std::string text;
    for (const auto& variable :
         rank_environment(caller, spec, job, placement, 1, placement.hosts[1].ranks[0]))
      if (variable.name.starts_with("OMPI_MCA_"))
        text += variable.name + "=" + variable.value + " ";
    return text;
  };
  EXPECT_EQ(yields(false, {}), "");
  EXPECT_EQ(yields(true, {}), "OMPI_MCA_mpi_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 ");
  EXPECT_EQ(yields(true, {{"OMPI_MCA_mpi_oversubscribe", "0"}}), "OMPI_MCA_mpi_yield_when_idle=1 ");
  JobSpec spec;
  spec.environment = {{"OMPI_MCA_mpi_yield_when_idle", "0"}};
  EXPECT_EQ(yields(true, {}, spec), "OMPI_MCA_mpi_oversubscribe=1 ");
}

TEST(RankEnvironment, ExcludesTheJobsHostsFromTheProxyOfGrpc) {
  const auto exceptions = [](const Environment& caller, const JobSpec& spec = {}) {
    const auto got = environment_of_last(caller, spec);
    const auto found = got.find("no_grpc_proxy");
    return found == got.end() ? "" : found->second;
  };
  const std::string hosts = "10.0.0.1,10.0.0.2,n1,n2";
  EXPECT_EQ(exceptions({}), "");
  EXPECT_EQ(exceptions({{"http_proxy", ""}, {"no_proxy", "a"}}), "") << "no proxy";
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"})
    EXPECT_EQ(exceptions({{name, "http://proxy:3128"}}), hosts) << name;
  EXPECT_EQ(exceptions({{"http_proxy", "p"}, {"no_proxy", ".local,a"}}), ".local,a," + hosts);
  EXPECT_EQ(exceptions({{"http_proxy", "p"}, {"no_proxy", "a"}, {"no_grpc_proxy", "b"}}),
            "b," + hosts);
  JobSpec spec;
  spec.environment = {{"http_proxy", "p"}};
  EXPECT_EQ(exceptions({}, spec), hosts);
  spec.environment = {{"no_grpc_proxy", "mine"}};
  EXPECT_EQ(exceptions({{"http_proxy", "p"}}, spec), "") << "-x sets it";
}

TEST(RankEnvironment, MlxVariablesListEveryRankInTheRing) {
  JobSpec spec;
  EXPECT_EQ(mlx_hosts(spec, {}, uneven()), "");
  spec.frameworks = {Framework::mlx};
  const RankPorts ports{{"a", "b"}, {{"1", "2", "3", "4", "5", "6"}, {"7"}}};
  EXPECT_EQ(mlx_hosts(spec, ports, uneven()), R"([["a:4"],["a:5"],["a:6"],["b:7"]])");
  const auto got = environment_of_last({}, spec);
  EXPECT_EQ(got.at("MLX_RANK"), "3");
  EXPECT_EQ(got.at("NCCL_HOST_IP"), "10.0.0.1");
  EXPECT_EQ(got.at("NCCL_PORT"), "4");
}

TEST(EnvironmentText, ListsTheVariablesOfARankWithReasons) {
  Plan plan;
  plan.placement = uneven();
  plan.allocation.hosts.resize(2);
  plan.allocation.hosts[0].name = "n1";
  plan.allocation.hosts[1].name = plan.allocation.hosts[1].address = "n2";
  JobSpec spec;
  spec.environment = {{"A", "x y"}};
  RankSet last;
  last.add(3, 3);
  spec.output.only_ranks = last;
  const Environment caller{{"HOME", "/h"}, {"SLURM_STEP_ID", "0"}};
  const auto text = environment_text(spec, plan, caller);
  ASSERT_TRUE(text) << text.error().message;
  const auto lines = "\n" + *text;
  for (const char* line :
       {"# rank 3 on n2: the caller's environment, and this", "RANK=3  # this rank", "A=x y  # -x",
        "MASTER_PORT=<port>  # a port that is held there for the program",
        "# SLURM_STEP_ID is removed: it describes the process that called hvdrun"})
    EXPECT_NE(lines.find("\n" + std::string(line) + "\n"), std::string::npos) << line << *text;
  EXPECT_EQ(lines.find("HOME"), std::string::npos) << "the caller's variables are not listed";
  plan.placement = {};
  plan.placement.to_ask = {"n1"};
  EXPECT_FALSE(environment_text(spec, plan, caller));
}

TEST(JobEnvironment, AccelerateConfigOverridesTheCallerButNotOptionX) {
  JobSpec spec;
  spec.accelerate = {{"ACCELERATE_MIXED_PRECISION", "bf16"}, {"ACCELERATE_USE_CPU", "true"}};
  spec.environment = {{"ACCELERATE_USE_CPU", "false"}};
  const auto got = job_environment({{"ACCELERATE_MIXED_PRECISION", "no"}}, spec);
  EXPECT_TRUE(has(got, "ACCELERATE_MIXED_PRECISION=bf16"));
  EXPECT_TRUE(has(got, "ACCELERATE_USE_CPU=false"));
}

TEST(JobEnvironment, DropsTheVariablesOfAnOuterLauncher) {
  const Environment caller{{"HOME", "/root"},        {"PMIX_RANK", "0"},
                           {"PMI_FD", "5"},          {"OMPI_COMM_WORLD_RANK", "0"},
                           {"OMPI_MCA_orte_x", "1"}, {"OMPI_MCA_btl", "self"},
                           {"PMIX_MCA_x", "kept"},   {"SLURM_PROCID", "4"},
                           {"SLURM_STEP_ID", "0"},   {"SLURM_JOB_ID", "9"},
                           {"HVD_STATUS", "/x@0"},   {"TORCHELASTIC_RUN_ID", "t"},
                           {"HVD_AGENT", "/x"},      {"HVD_MEMBER", "3"}};
  const auto got = job_environment(caller, {});
  EXPECT_EQ(got, (std::vector<std::string>{"CCL_ATL_TRANSPORT=ofi", "CCL_PROCESS_LAUNCHER=torchrun",
                                           "HOME=/root", "OMPI_MCA_btl=self", "PMIX_MCA_x=kept",
                                           "PYTHONUNBUFFERED=1", "SLURM_JOB_ID=9"}));
}

TEST(JobEnvironment, UsesTheLastValueOfOptionX) {
  JobSpec spec;
  spec.environment = {{"A", "1"}, {"B", std::nullopt}, {"A", "2"}, {"GONE", std::nullopt}};
  const auto got = job_environment({{"B", "b"}, {"A", "0"}}, spec);
  EXPECT_TRUE(has(got, "A=2"));
  EXPECT_TRUE(has(got, "B=b"));
  EXPECT_EQ(got.size(), 5u);  // A, B, PYTHONUNBUFFERED, two of oneCCL
}

TEST(RankEnvironment, SaysToTorchrunWhichHostItIsOn) {
  JobSpec spec;
  EXPECT_FALSE(environment_of_last({}, spec).contains("PET_NNODES"));
  spec.starts_torchrun = true;
  const auto got = environment_of_last({}, spec);
  EXPECT_EQ(got.at("PET_NNODES"), "2");
  EXPECT_EQ(got.at("PET_NODE_RANK"), "1");
  EXPECT_EQ(got.at("PET_MASTER_ADDR"), got.at("MASTER_ADDR"));
  EXPECT_EQ(got.at("PET_MASTER_PORT"), got.at("MASTER_PORT"));
}

TEST(JobIdentity, SlurmsLaunchAddressIsThatOfTheMaster) {
  JobSpec spec;
  RankPorts ports{{"n1"}, {{"1", "2", "3"}}, "10.0.0.1"};
  EXPECT_EQ(with_ports({"id", "key", {}, {}}, ports, spec).launch_address, "10.0.0.1");
  spec.environment = {{"MASTER_ADDR", "10.0.0.9"}};
  EXPECT_EQ(with_ports({"id", "key", {}, {}}, ports, spec).launch_address, "10.0.0.9");
  spec.environment = {{"MASTER_ADDR", "head"}};
  EXPECT_EQ(with_ports({"id", "key", {}, {}}, ports, spec).launch_address, "10.0.0.1");
}

TEST(JobEnvironment, NamesTheGpusOfThisHostAsSrunDoes) {
  EXPECT_TRUE(has(job_environment({{"SLURM_JOB_GPUS", "2,3"}}, {}), "SLURM_STEP_GPUS=2,3"));
  const Environment step{
      {"SLURM_JOB_GPUS", "2,3"}, {"SLURM_STEP_GPUS", "0,1"}, {"SLURM_STEP_ID", "0"}};
  EXPECT_TRUE(has(job_environment(step, {}), "SLURM_STEP_GPUS=0,1"));
}

TEST(JobIdentity, UsersPortsOverrideHeldPorts) {
  JobSpec spec;
  const RankPorts ports{{"127.0.0.1"}, {{"1", "2", "3"}}};
  spec.environment = {{"MASTER_PORT", "29611"}, {"MASTER_ADDR", std::nullopt}};
  auto job = with_ports({"id", "key", {}, {}}, ports, spec);
  EXPECT_EQ(job.master_address, "127.0.0.1");
  EXPECT_EQ(job.master_port, "29611");
  EXPECT_EQ(job.rendezvous_port, "2");
  EXPECT_EQ(job.jax_port, "3");
  spec.environment = {{"HVD_PORT", "29700"}, {"JAX_COORDINATOR_PORT", "29800"}};
  job = with_ports({"id", "key", {}, {}}, ports, spec);
  EXPECT_EQ(job.master_port, "1");
  EXPECT_EQ(job.rendezvous_port, "29700");
  EXPECT_EQ(job.jax_port, "29800");
}

TEST(JobEnvironment, PassesTheNetworkInterfaceToLibhvdNcclGlooAndOpenMpi) {
  JobSpec spec;
  spec.remote.network_interface = "ib0,eth0";
  const auto got = job_environment({{"NCCL_SOCKET_IFNAME", "mine"}}, spec);
  for (const char* name : {"HVD_INTERFACE=ib0,eth0", "NCCL_SOCKET_IFNAME=mine",
                           "GLOO_SOCKET_IFNAME=ib0,eth0", "OMPI_MCA_btl_tcp_if_include=ib0,eth0"})
    EXPECT_TRUE(has(got, name)) << name;
  spec.remote.network_interface = "^docker,lo";
  const auto chosen = job_environment({}, spec, {"eth0", "ib0"});
  for (const char* name : {"HVD_INTERFACE=eth0,ib0", "NCCL_SOCKET_IFNAME=^docker,lo",
                           "GLOO_SOCKET_IFNAME=eth0,ib0", "OMPI_MCA_btl_tcp_if_include=eth0,ib0"})
    EXPECT_TRUE(has(chosen, name)) << name;
}

TEST(JobEnvironment, MakesThePathOfTheTimelineAbsolute) {
  JobSpec spec;
  spec.working_directory = "/home/me";
  EXPECT_TRUE(has(job_environment({{"HVD_TIMELINE", "mine"}}, spec), "HVD_TIMELINE=mine"));
  spec.timeline_file = "run/t.json";
  EXPECT_TRUE(
      has(job_environment({{"HVD_TIMELINE", "mine"}}, spec), "HVD_TIMELINE=/home/me/run/t.json"));
  spec.timeline_file = "/elsewhere/t.json";
  EXPECT_TRUE(has(job_environment({}, spec), "HVD_TIMELINE=/elsewhere/t.json"));
  spec.environment = {{"HVD_TIMELINE", "other"}};
  EXPECT_TRUE(has(job_environment({}, spec), "HVD_TIMELINE=other"));
}

TEST(JobEnvironment, AddsTheHorovodAndHvdFoldersToTheUsersPythonPath) {
  JobSpec spec;
  EXPECT_TRUE(has(job_environment({{"PYTHONPATH", "mine"}}, spec), "PYTHONPATH=mine"));
  spec.horovod_folder = "/h";
  EXPECT_TRUE(has(job_environment({}, spec), "PYTHONPATH=/h"));
  EXPECT_TRUE(has(job_environment({{"PYTHONPATH", ""}}, spec), "PYTHONPATH=/h"));
  spec.hvd_folder = "/p";
  EXPECT_TRUE(has(job_environment({{"PYTHONPATH", "mine:m2"}}, spec), "PYTHONPATH=/h:mine:m2:/p"));
  spec.environment = {{"PYTHONPATH", "x"}};
  EXPECT_TRUE(has(job_environment({{"PYTHONPATH", "mine"}}, spec), "PYTHONPATH=/h:x:/p"));
}

TEST(JobEnvironment, KeepsTheCallersPythonUnbuffered) {
  EXPECT_TRUE(has(job_environment({{"PYTHONUNBUFFERED", ""}}, {}), "PYTHONUNBUFFERED="));
}

TEST(JobEnvironment, CollectiveOptionsOverrideTheCallerButNotOptionX) {
  JobSpec spec;
  const Environment caller{{"HVD_CACHE_CAPACITY", "1"}, {"HVD_STALL_CHECK_DISABLE", "1"}};
  EXPECT_TRUE(has(job_environment(caller, spec), "HVD_CACHE_CAPACITY=1"));
  spec.collectives.fusion_bytes = 512 * 1024;
  spec.collectives.cache_capacity = 77;
  spec.collectives.autotune = true;
  spec.collectives.autotune_log = "tuned.csv";
  spec.working_directory = "/data";
  spec.collectives.stall_check = true;
  spec.collectives.stall_warning = std::chrono::milliseconds(250);
  spec.collectives.stall_shutdown = std::chrono::seconds(120);
  const auto variables = job_environment(caller, spec);
  EXPECT_TRUE(has(variables, "HVD_FUSION_THRESHOLD=524288"));
  EXPECT_TRUE(has(variables, "HVD_CACHE_CAPACITY=77"));
  EXPECT_TRUE(has(variables, "HVD_AUTOTUNE=1"));
  EXPECT_TRUE(has(variables, "HVD_AUTOTUNE_LOG=/data/tuned.csv"));
  EXPECT_TRUE(has(variables, "HVD_STALL_CHECK_DISABLE=0"));
  EXPECT_TRUE(has(variables, "HVD_STALL_CHECK_TIME_SECONDS=0.25"));
  EXPECT_TRUE(has(variables, "HVD_STALL_SHUTDOWN_TIME_SECONDS=120"));
  spec.environment.push_back({"HVD_CACHE_CAPACITY", "5"});
  EXPECT_TRUE(has(job_environment(caller, spec), "HVD_CACHE_CAPACITY=5"));
}

}  // namespace
}  // namespace hvdrun
