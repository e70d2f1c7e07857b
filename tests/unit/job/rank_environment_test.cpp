#include "job/launch.hpp"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Two hosts, uneven: three ranks and one.
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
  return placement;
}

std::map<std::string, std::string> environment_of_last(const Environment& caller) {
  const auto placement = uneven();
  const JobIdentity job{"id", "key", "10.0.0.1", "29511", 2};
  const auto variables = rank_environment(caller, job, placement, 1, placement.hosts[1].ranks[0]);
  std::map<std::string, std::string> map(variables.begin(), variables.end());
  EXPECT_EQ(map.size(), variables.size()) << "a name stands there twice";
  return map;
}

bool has(const std::vector<std::string>& variables, const std::string& variable) {
  return std::find(variables.begin(), variables.end(), variable) != variables.end();
}

TEST(RankEnvironment, TellsARankItsPlaceInEveryonesWords) {
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
                                                    {"RANK", "3"},
                                                    {"WORLD_SIZE", "4"},
                                                    {"LOCAL_RANK", "0"},
                                                    {"LOCAL_WORLD_SIZE", "1"},
                                                    {"GROUP_RANK", "1"},
                                                    {"GROUP_WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "10.0.0.1"},
                                                    {"MASTER_PORT", "29511"},
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

TEST(RankEnvironment, UnderSlurmItsVariablesSayTheTruthForTheRank) {
  const auto got = environment_of_last({{"SLURM_JOB_ID", "9"}, {"SLURM_PROCID", "0"}});
  EXPECT_EQ(got.at("SLURM_PROCID"), "3");
  EXPECT_EQ(got.at("SLURM_LOCALID"), "0");
  EXPECT_EQ(got.at("SLURM_NODEID"), "1");
  EXPECT_EQ(got.at("SLURM_NTASKS"), "4");
}

TEST(JobEnvironment, DropsWhatAnOuterLauncherSaidOfItsProcess) {
  const Environment caller{{"HOME", "/root"},        {"PMIX_RANK", "0"},
                           {"PMI_FD", "5"},          {"OMPI_COMM_WORLD_RANK", "0"},
                           {"OMPI_MCA_orte_x", "1"}, {"OMPI_MCA_btl", "self"},
                           {"PMIX_MCA_x", "kept"},   {"SLURM_PROCID", "4"},
                           {"SLURM_STEP_ID", "0"},   {"SLURM_JOB_ID", "9"},
                           {"HVD_STATUS", "/x@0"},   {"TORCHELASTIC_RUN_ID", "t"}};
  const auto got = job_environment(caller, {});
  EXPECT_EQ(got, (std::vector<std::string>{"HOME=/root", "OMPI_MCA_btl=self", "PMIX_MCA_x=kept",
                                           "PYTHONUNBUFFERED=1", "SLURM_JOB_ID=9"}));
}

TEST(JobEnvironment, TakesTheUsersChanges) {
  JobSpec spec;
  spec.environment = {{"A", "1"}, {"B", std::nullopt}, {"A", "2"}, {"GONE", std::nullopt}};
  const auto got = job_environment({{"B", "b"}, {"A", "0"}}, spec);
  EXPECT_TRUE(has(got, "A=2"));
  EXPECT_TRUE(has(got, "B=b"));
  EXPECT_EQ(got.size(), 3u);  // and PYTHONUNBUFFERED
}

TEST(JobIdentity, TheUsersOwnMasterWins) {
  JobSpec spec;
  spec.environment = {{"MASTER_PORT", "29611"}, {"MASTER_ADDR", std::nullopt}};
  const auto job = with_master_of_user({"id", "key", "127.0.0.1", "1"}, spec);
  EXPECT_EQ(job.master_address, "127.0.0.1");
  EXPECT_EQ(job.master_port, "29611");
}

TEST(JobEnvironment, NamesTheNetworkToAllWhoSpeakToOtherHosts) {
  JobSpec spec;
  spec.remote.network_interface = "ib0,eth0";
  const auto got = job_environment({{"NCCL_SOCKET_IFNAME", "mine"}}, spec);
  for (const char* name : {"HVD_INTERFACE=ib0,eth0", "NCCL_SOCKET_IFNAME=mine",
                           "GLOO_SOCKET_IFNAME=ib0,eth0", "OMPI_MCA_btl_tcp_if_include=ib0,eth0"})
    EXPECT_TRUE(has(got, name)) << name;
}

TEST(JobEnvironment, NamesTheTimelinesFileInFull) {
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

TEST(JobEnvironment, PutsFoldersOfHorovodAroundWhatTheUserHasOnPythonsPath) {
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

TEST(JobEnvironment, LeavesPythonsBufferingToTheUserWhoSetIt) {
  EXPECT_TRUE(has(job_environment({{"PYTHONUNBUFFERED", ""}}, {}), "PYTHONUNBUFFERED="));
}

TEST(JobEnvironment, OptionsOfCollectivesCountOverTheCallersAndUnderTheUsersX) {
  JobSpec spec;
  const Environment caller{{"HVD_CACHE_CAPACITY", "1"}, {"HVD_STALL_CHECK_DISABLE", "1"}};
  EXPECT_TRUE(has(job_environment(caller, spec), "HVD_CACHE_CAPACITY=1"));
  spec.collectives.fusion_bytes = 512 * 1024;
  spec.collectives.cache_capacity = 77;
  spec.collectives.stall_check = true;
  spec.collectives.stall_warning = std::chrono::milliseconds(250);
  spec.collectives.stall_shutdown = std::chrono::seconds(120);
  const auto variables = job_environment(caller, spec);
  EXPECT_TRUE(has(variables, "HVD_FUSION_THRESHOLD=524288"));
  EXPECT_TRUE(has(variables, "HVD_CACHE_CAPACITY=77"));
  EXPECT_TRUE(has(variables, "HVD_STALL_CHECK_DISABLE=0"));
  EXPECT_TRUE(has(variables, "HVD_STALL_CHECK_TIME_SECONDS=0.25"));
  EXPECT_TRUE(has(variables, "HVD_STALL_SHUTDOWN_TIME_SECONDS=120"));
  spec.environment.push_back({"HVD_CACHE_CAPACITY", "5"});
  EXPECT_TRUE(has(job_environment(caller, spec), "HVD_CACHE_CAPACITY=5"));
}

}  // namespace
}  // namespace hvdrun
