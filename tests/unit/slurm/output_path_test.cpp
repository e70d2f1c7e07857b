#include "slurm/output_path.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

JobRecord job_with(const std::string& std_out) {
  JobRecord job;
  job.id = "3";
  job.number = 3;
  job.is_batch = true;
  job.work_dir = "/home/user";
  job.std_out = std_out;
  job.batch_host = "n4";
  job.user = "user";
  job.name = "nm";
  return job;
}

// The expected names are those that slurmd of SLURM 22.05 used.
TEST(OutputPath, ReplacesPatterns) {
  const std::pair<const char*, const char*> cases[] = {
      {"/home/user/a-%j.txt", "/home/user/a-3.txt"},
      {"/home/user/b%%j.txt", "/home/user/b%j.txt"},
      {"/home/user/c-%5j-%x-%u.txt", "/home/user/c-00003-nm-user.txt"},
      {"/home/user/d-%N.txt", "/home/user/d-n4.txt"},
      {"/home/user/e-%J-%s.txt", "/home/user/e-3-batch.txt"},
      {"/home/user/f-%t-%n-%02n.txt", "/home/user/f-0-0-00.txt"},
      {"/home/user/g-%A_%a.txt", "/home/user/g-3_4294967294.txt"},
      {R"(/home/user/h\%j.txt)", "/home/user/h%j.txt"},
      {R"(/home/user/h\\%j.txt)", R"(/home/user/h\%j.txt)"},
      {"/home/user/i-%b.txt", "/home/user/i-%b.txt"},
      {"/home/user/k-%12j.txt", "/home/user/k-0000000003.txt"},
      {"/home/user/l-%q-%", "/home/user/l-%q-%"},
      {"sub/m.txt", "/home/user/sub/m.txt"},
      {"", "/home/user/slurm-3.out"},
      {"/home/user/slurm-3.out", "/home/user/slurm-3.out"},
  };
  for (const auto& [pattern, expected] : cases)
    EXPECT_EQ(output_paths(job_with(pattern)).out, expected) << pattern;
}

TEST(OutputPath, ReplacesPatternsForAnArrayTask) {
  auto job = job_with("/o/%A_%a-%j");
  job.id = "15_7";
  job.number = 21;
  EXPECT_EQ(output_paths(job).out, "/o/15_7-21");
  job.std_out = "/home/user/slurm-21.out";  // what squeue of 22.05 prints without --output
  EXPECT_EQ(output_paths(job).out, "/home/user/slurm-15_7.out");
}

TEST(OutputPath, HasStderrOnlyIfItIsAnotherFile) {
  auto job = job_with("/o/%j.out");
  EXPECT_EQ(output_paths(job).err, "");
  job.std_err = "/o/%j.out";
  EXPECT_EQ(output_paths(job).err, "");
  job.std_err = "/o/%j.err";
  EXPECT_EQ(output_paths(job).err, "/o/3.err");
  job.is_batch = false;
  EXPECT_EQ(output_paths(job).out + output_paths(job).err, "");
}

}  // namespace
}  // namespace hvdrun
