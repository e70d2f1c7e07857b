#include "commands/batch_request.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class BatchRequest : public testing::Test {
 protected:
  // Returns the error for these files in an array of these indices; "" without one.
  std::string fault(const std::string& array) {
    batch_.slurm_options = {{"array", array}};
    const auto checked = check_array_files(job_, batch_);
    return checked ? "" : checked.error().message;
  }

  // Returns the warnings of an array whose output has this name.
  std::vector<std::string> warnings(const std::string& output) {
    batch_.slurm_options = {{"array", "0-9"}, {"output", output}};
    return request_warnings(BatchShape(), job_, batch_, Offer());
  }

  JobSpec job_;
  BatchSpec batch_;
};

TEST_F(BatchRequest, RefusesAFileThatTasksOfAnArrayWouldShare) {
  EXPECT_EQ(fault("0-9"), "");
  job_.report_file = "out/it's.json";
  EXPECT_EQ(fault("0-9"),
            "--report 'out/it'\\''s.json': the tasks of an array would overwrite each other's; "
            "--report 'out/it'\\''s-{index}.json' gives each its own");
  EXPECT_EQ(fault("7"), "") << "it has one task";
  job_.report_file = "out/{index}.json";
  EXPECT_EQ(fault("0-9"), "");
  job_.output.directory = "logs";
  EXPECT_THAT(fault("1,2"), HasSubstr("--output-filename 'logs/{index}' gives each its own"));
  batch_.slurm_options.clear();
  EXPECT_TRUE(check_array_files(job_, batch_)) << "there is no array";
}

TEST_F(BatchRequest, WarnsOfOneOutputFileForAllTasksOfAnArray) {
  EXPECT_THAT(warnings("a b.log"),
              ElementsAre(HasSubstr("--output 'a b.log': all tasks of the array write to this "
                                    "file; {index} or %a in its name gives each its own")));
  for (const auto* name : {"%A.log", "100%%a.log", "%x-%4A", "%"})
    EXPECT_EQ(warnings(name).size(), 1u) << name;
  for (const auto* name : {"%a.log", "%A_%4a.log", "%%%j", "%J", "/dev/null"})
    EXPECT_THAT(warnings(name), IsEmpty()) << name;
}

TEST_F(BatchRequest, WarnsOfMoreGpusThanANodeHasAlsoIfTheJobNeedsFewer) {
  Offer offer;
  offer.largest.emplace();
  offer.largest->partition = "debug";
  offer.largest->gpus = 4;
  offer.largest->cpus = 16;
  batch_.gpus_per_node = 8;
  batch_.cpus_per_node = 16;
  BatchShape shape;
  shape.gpus_per_node = 2;
  EXPECT_THAT(request_warnings(shape, job_, batch_, offer),
              ElementsAre(HasSubstr("--gpus-per-node 8: a node of partition debug has 4 GPUs")));
  shape.gpus_per_node = 8;
  EXPECT_THAT(request_warnings(shape, job_, batch_, offer),
              ElementsAre(HasSubstr("the job requests 8 GPUs on each node")));
}

TEST_F(BatchRequest, IsForTheFolderThatChdirNames) {
  const auto here = folder_of_job(batch_);
  batch_.slurm_options = {{"chdir", "sub"}};
  EXPECT_EQ(folder_of_job(batch_), here / "sub");
  batch_.slurm_options = {{"chdir", "/other"}};
  EXPECT_EQ(folder_of_job(batch_), "/other");
}

}  // namespace
}  // namespace hvdrun
