#include "commands/job_dependency.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

std::vector<std::string> jobs_in(std::string_view dependency) {
  std::vector<std::string> texts;
  for (const auto& id : jobs_of_dependency(dependency)) texts.push_back(id.text);
  return texts;
}

TEST(JobDependency, NamesJobsAfterEachType) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(jobs_in("afterok:12"), Texts{"12"});
  EXPECT_EQ(jobs_in("afterok:12:13_4,afterany:14?after:15"), (Texts{"12", "13_4", "14", "15"}));
  EXPECT_EQ(jobs_in("after:14+5"), Texts{"14"});
  EXPECT_EQ(jobs_in("singleton"), Texts{});
  EXPECT_EQ(jobs_in("12"), Texts{"12"});
  EXPECT_EQ(jobs_in("afterok:,:x"), Texts{});
  EXPECT_EQ(jobs_in(""), Texts{});
}

}  // namespace
}  // namespace hvdrun
