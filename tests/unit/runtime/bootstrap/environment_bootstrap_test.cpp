#include "bootstrap/bootstrap.hpp"
#include "support.hpp"

#include <gtest/gtest.h>

namespace libhvd {
namespace {

using Variables = std::map<std::string, std::string>;

std::string message_for(const Variables& variables) {
  const auto bootstrap = open_bootstrap(test::make_environment(variables), {});
  return bootstrap.ok() ? "no error" : bootstrap.error().message;
}

TEST(OpenBootstrap, WithoutVariablesThereIsOneRank) {
  auto bootstrap = open_bootstrap(test::make_environment({}), {});
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ((*bootstrap)->info().rank, 0);
  EXPECT_EQ((*bootstrap)->info().size, 1);
  EXPECT_EQ(*(*bootstrap)->exchange("me"), std::vector<std::string>{"me"});
}

// Returns what is printed when a process with these variables opens its bootstrap.
std::string printed_with(const Variables& variables) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(message_for(variables), "no error");
  return testing::internal::GetCapturedStderr();
}

TEST(OpenBootstrap, WarnsIfProcessesOfOneStepAreSeparateJobs) {
  EXPECT_EQ(
      printed_with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
      "hvd: warning: 2 processes were started together (SLURM_STEP_NUM_TASKS), but hvd cannot "
      "bring them together: each is rank 0 of 1, a separate run of the program. Type in the "
      "job hvdrun instead of srun, or srun --mpi=pmix\n");
  EXPECT_NE(printed_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}), "");
  EXPECT_EQ(printed_with({{"SLURM_PROCID", "1"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_STEP_NUM_TASKS", "2"},
                          {"PMI_RANK", "1"},
                          {"PMI_SIZE", "2"}}),
            "")
      << "only process 0 warns";
  EXPECT_EQ(printed_with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}}), "");
  EXPECT_NE(printed_with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "") << "no launcher of a host";
  EXPECT_NE(printed_with({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}), "");
  EXPECT_NE(printed_with({{"OMPI_COMM_WORLD_SIZE", "2"}}), "");
  EXPECT_EQ(printed_with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}), "");
  EXPECT_EQ(printed_with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}), "");
  EXPECT_EQ(printed_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}), "") << "a batch script";
  EXPECT_EQ(printed_with({{"SLURM_PROCID", "0"},
                          {"SLURM_STEP_NUM_TASKS", "2"},
                          {"RANK", "0"},
                          {"WORLD_SIZE", "1"}}),
            "")
      << "torchrun has started it";
}

TEST(OpenBootstrap, OneRankNeedsNoAddress) {
  auto bootstrap = open_bootstrap(test::make_environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), {});
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ((*bootstrap)->exchange("me")->size(), 1u);
}

TEST(OpenBootstrap, InvalidVariablesFailWithTheirNames) {
  EXPECT_EQ(message_for({{"HVD_RANK", "abc"}, {"HVD_SIZE", "2"}}),
            "HVD_RANK=\"abc\" is not an integer from 0 to 1048576");
  EXPECT_EQ(message_for({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}),
            "RANK=\"-1\" is not an integer from 0 to 1048576");
  EXPECT_EQ(message_for({{"HVD_RANK", "2"}, {"HVD_SIZE", "2"}}),
            "HVD_RANK=2 must be less than HVD_SIZE=2");
  EXPECT_EQ(message_for({{"HVD_RANK", "0"}}), "HVD_RANK is set, but HVD_SIZE is not");
  EXPECT_EQ(message_for({{"WORLD_SIZE", "4"}}), "WORLD_SIZE is set, but RANK is not");
  EXPECT_EQ(
      message_for(
          {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "2"}}),
      "LOCAL_RANK=3 must be less than LOCAL_WORLD_SIZE=2");
}

TEST(OpenBootstrap, NamesTheVariableThatIsMissingToFindRank0) {
  EXPECT_NE(message_for({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).find("MASTER_ADDR"),
            std::string::npos);
  EXPECT_NE(message_for({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}})
                .find("MASTER_PORT"),
            std::string::npos);
  EXPECT_EQ(message_for({{"RANK", "0"},
                         {"WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "localhost"},
                         {"MASTER_PORT", "29500"},
                         {"HVD_JOB_KEY", "abcd"}}),
            "HVD_JOB_KEY is not 64 hexadecimal digits");
}

// Rank 1 tries the ports where rank 0 may listen, and names them in its error.
TEST(OpenBootstrap, UsesHvdPortOrElsePortsNearMasterPort) {
  const auto ports_in_message = [](const Variables& changes) {
    Variables variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}};
    variables.insert(changes.begin(), changes.end());
    BootstrapOptions options;
    options.timeout = std::chrono::milliseconds(1);
    const auto bootstrap = open_bootstrap(test::make_environment(variables), options);
    return bootstrap.ok() ? "no error" : bootstrap.error().message;
  };
  const auto expect = [&](const Variables& changes, const std::string& ports) {
    const auto message = ports_in_message(changes);
    EXPECT_NE(message.find("at 127.0.0.1 port " + ports + " within"), std::string::npos) << message;
  };
  expect({{"MASTER_PORT", "29500"}}, "29565 to 29629");
  expect({{"MASTER_PORT", "29500"}, {"HVD_PORT", "40000"}}, "40000 to 40064");
  expect({{"MASTER_PORT", "65500"}}, "65435 to 65499");
  expect({{"MASTER_PORT", "29500"}, {"HVD_PORT", "65535"}}, "65535");
}

TEST(OpenBootstrap, HvdVariablesTakePrecedenceOverTorchVariables) {
  auto bootstrap = open_bootstrap(
      test::make_environment(
          {{"HVD_RANK", "0"}, {"HVD_SIZE", "1"}, {"RANK", "5"}, {"WORLD_SIZE", "8"}}),
      {});
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ((*bootstrap)->info().size, 1);
}

}  // namespace
}  // namespace libhvd
