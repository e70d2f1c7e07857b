#include "commands/job_name.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(JobName, IsTheNameOfTheProgramOrItsScript) {
  EXPECT_EQ(job_name_of({"./build/train", "x"}), "train");
  EXPECT_EQ(job_name_of({"python3", "-u", "src/train.py", "--lr", "1"}), "train.py");
  EXPECT_EQ(job_name_of({"/usr/bin/python3.11", "-c"}), "python3.11");
  EXPECT_EQ(job_name_of({"sh", "-c", "echo x"}), "sh");
  EXPECT_EQ(job_name_of({"python3", "-m", "pack.train"}), "pack.train");
  EXPECT_EQ(job_name_of({}), "");
}

}  // namespace
}  // namespace hvdrun
