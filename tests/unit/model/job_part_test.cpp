#include "model/job_part.hpp"

#include "temporary_folder.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

std::string contents(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(JobPart, KeepsTheFilesOfEarlierParts) {
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return folder.path() / name; };
  for (const int number : {0, 1, 2}) {
    ASSERT_TRUE(keep_earlier_part(at("run.json"), {"12", number}));
    EXPECT_FALSE(fs::exists(at("run.json")));
    write(at("run.json"), std::to_string(number));
    write(at("run.json.rank3"), "3 in " + std::to_string(number));
    write(at("run.json.rankings"), "the user's");
  }
  EXPECT_EQ(contents(at("run.json.job12.part0")), "0");
  EXPECT_EQ(contents(at("run.json.job12.part0.rank3")), "3 in 0");
  EXPECT_EQ(contents(at("run.json.job12.part1")), "1");
  EXPECT_EQ(contents(at("run.json")), "2");
  // A second hvdrun in the same part of the job keeps the file.
  ASSERT_TRUE(keep_earlier_part(at("run.json"), {"12", 2}));
  EXPECT_EQ(contents(at("run.json.job12.part1")), "1");
  EXPECT_EQ(contents(at("run.json")), "2");
  // So does the first part of another job.
  ASSERT_TRUE(keep_earlier_part(at("run.json"), {"13", 0}));
  EXPECT_EQ(contents(at("run.json")), "2");
}

TEST(JobPart, ReportsAFileThatCannotBeRenamed) {
  const TemporaryFolder folder;
  const auto file = folder.path() / std::string(250, 'x');
  write(file, "0");
  const auto kept = keep_earlier_part(file, {"12", 1});
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().exit_code, kExitUsage);
  EXPECT_NE(kept.error().message.find("File name too long"), std::string::npos);
}

}  // namespace
}  // namespace hvdrun
