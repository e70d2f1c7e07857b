#include "commands/scale_files.hpp"

#include "../temporary_folder.hpp"
#include "commands/scale_page.hpp"
#include "commands/scale_plot.hpp"
#include "example_study.hpp"

#include <cmath>
#include <iterator>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace hvdrun::scale {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(StudyJson, HoldsTheWholeStudy) {
  Study study = example_study();
  study.command = "hvdrun scale \xff";
  study.runs[3].metrics[0].value = std::nan("");
  const auto json = nlohmann::json::parse(study_json(study, summarise(study)));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["baseline"], 1);
  EXPECT_EQ(json["speedup_from"], "samples_per_second");
  ASSERT_EQ(json["sizes"].size(), 3u);
  EXPECT_EQ(json["unit"], "ranks");
  EXPECT_EQ(json["sizes"][2]["size"], 4);
  EXPECT_EQ(json["sizes"][2]["ranks"], 4);
  EXPECT_EQ(json["sizes"][2]["speedup"]["median"], 2.5);
  EXPECT_EQ(json["sizes"][1]["epoch_seconds"]["most"], 5.5);
  EXPECT_EQ(json["sizes"][0]["metrics"]["loss"]["median"], nullptr) << "JSON has no NaN";
  EXPECT_EQ(json["runs"].size(), 6u);
  EXPECT_EQ(json["warnings"].size(), 1u);
}

TEST(StudyJson, HoldsDateHostsAndVersions) {
  Study study = example_study();
  study.date = 1'700'000'000;
  study.version = "1.2.3";
  study.unit = Unit::devices;
  study.runs[0].hosts = {{"n1", 16, {"NVIDIA H200", ""}}};
  study.runs[1].hosts = {{"n1", 16, {"NVIDIA H200", ""}}, {"n2", 8, {}}};
  const auto summary = summarise(study);
  const auto json = nlohmann::json::parse(study_json(study, summary));
  EXPECT_EQ(json["date"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(json["versions"]["hvdrun"], "1.2.3");
  EXPECT_EQ(json["unit"], "devices");
  ASSERT_EQ(json["hosts"].size(), 2u);
  EXPECT_EQ(json["hosts"][0].dump(), R"({"cores":16,"devices":["NVIDIA H200",null],"host":"n1"})");
  EXPECT_EQ(json["sizes"][2]["size"], 4);
  EXPECT_EQ(json["sizes"][2]["ranks"], 1) << "one rank drives all devices";
  EXPECT_THAT(study_csv(summary), StartsWith("devices,runs,failed,"));
  EXPECT_THAT(study_page(study, summary),
              HasSubstr("2023-11-14 22:13 UTC, hvdrun 1.2.3, n1: 16 cores, 1 × NVIDIA H200, "
                        "1 × GPU, n2: 8 cores<"));
  for (const auto& text : {study_page(study, summary), study_svg(summary)}) {
    EXPECT_THAT(text, HasSubstr(">devices</text>"));
    EXPECT_THAT(text, testing::Not(HasSubstr(">ranks<")));
  }
}

TEST(StudyJson, HasNullForUnknownValues) {
  Study study;
  study.sizes = {2};
  study.runs = {failed_run(2)};
  const auto json = nlohmann::json::parse(study_json(study, summarise(study)));
  EXPECT_EQ(json["baseline"], nullptr);
  EXPECT_EQ(json["sizes"][0]["speedup"], nullptr);
  EXPECT_EQ(json["runs"][0]["trouble"], "exit code 3");
  EXPECT_EQ(json["runs"][0]["epoch_seconds"], nullptr);
}

TEST(StudyCsv, HasALinePerSize) {
  Study study = example_study();
  study.runs[0].metrics.push_back({"a,b", 7});
  study.sizes.push_back(8);
  const auto csv = study_csv(summarise(study));
  EXPECT_THAT(csv, StartsWith("ranks,runs,failed,wall_seconds_median,wall_seconds_least,"));
  EXPECT_THAT(csv, HasSubstr("\"a,b_median\",\"a,b_least\",\"a,b_most\"\r\n"));
  EXPECT_THAT(csv, HasSubstr("\r\n4,2,0,40,40,40,4,4,4,250,250,250,2.5,2.5,2.5,0.625,0.625,0.625,"
                             "0.5,0.5,0.5,0.9,0.9,0.9,,,\r\n"));
  EXPECT_THAT(csv, HasSubstr("\r\n8,0,0,,,,"));
}

TEST(StudyFiles, AreWrittenWithoutLeavingTemporaryFiles) {
  const TemporaryFolder folder;
  const Study study = example_study();
  ASSERT_TRUE(write_study(study, summarise(study), folder.path()));
  ASSERT_TRUE(write_study(study, summarise(study), folder.path())) << "replaces older files";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 4);
  for (const char* const name : {"scaling.json", "scaling.csv", "scaling.svg", "scaling.html"})
    EXPECT_GT(std::filesystem::file_size(folder.path() / name), 100u) << name;
  const auto missing = write_study(study, summarise(study), folder.path() / "missing");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("missing/scaling.json"));
}

}  // namespace
}  // namespace hvdrun::scale
