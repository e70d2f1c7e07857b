#include "slurm/template_folders.hpp"

#include "temporary_folder.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr auto kText = "---\nabout: a test\n---\n#!/bin/bash\n{{#command}}{{.}} {{/command}}\n";

TEST(TemplateFolders, AreInOrderOfPrecedence) {
  const Environment environment{
      {"HVD_TEMPLATE_PATH", "/site:/lab::/x"}, {"XDG_CONFIG_HOME", "/c"}, {"HOME", "/home/u"}};
  EXPECT_THAT(template_folders({"/mine"}, environment, "/own"),
              ElementsAre("/mine", "/site", "/lab", "/x", "/c/hvdrun/templates", "/own"));
  EXPECT_THAT(template_folders({}, {{"HOME", "/home/u"}}, "/own"),
              ElementsAre("/home/u/.config/hvdrun/templates", "/own"));
  EXPECT_THAT(template_folders({}, {}, "/own"), ElementsAre("/own"));
}

TEST(FindTemplates, FirstFolderTakesPrecedence) {
  const TemporaryFolder folder;
  for (const auto* file : {"a/x.sbatch", "b/x.sbatch", "b/y.sbatch", "b/z.txt"}) {
    fs::create_directories((folder.path() / file).parent_path());
    std::ofstream(folder.path() / file) << kText;
  }
  const std::vector<fs::path> folders{folder.path() / "missing", folder.path() / "a",
                                      folder.path() / "b"};
  const auto found = find_templates(folders);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].file, folder.path() / "a/x.sbatch");
  EXPECT_EQ(found[1].name, "y");
  EXPECT_EQ(load_template("y", folders)->about, "a test");
  EXPECT_EQ(load_template((folder.path() / "b/x.sbatch").string(), folders)->name, "x");
  EXPECT_THAT(load_template("other", {folder.path() / "a"}).error().message,
              HasSubstr("there is no template \"other\" in " + (folder.path() / "a").string() +
                        "; there are x (hvdrun templates says what for)"));
}

TEST(LoadTemplate, SuggestsASimilarName) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "generic.sbatch") << kText;
  EXPECT_EQ(load_template("genric", {folder.path()}).error().message,
            "there is no template \"genric\"; did you mean \"generic\"?");
}

TEST(ReadTemplate, ReportsWhyAFileCannotBeRead) {
  const TemporaryFolder folder;
  const auto missing = (folder.path() / "m.sbatch").string();
  EXPECT_EQ(load_template(missing, {}).error().message,
            "cannot read the template " + missing + ": No such file or directory");
  EXPECT_THAT(read_template({"zero", "/dev/zero"}).error().message, HasSubstr("larger than 1 MiB"));
}

TEST(OwnTemplates, AllParse) {
  const auto found = find_templates({own_template_folder()});
  std::vector<std::string> names;
  for (const auto& each : found) {
    names.push_back(each.name);
    const auto script = read_template(each);
    EXPECT_TRUE(script) << script.error().message;
  }
  EXPECT_THAT(names, ElementsAre("container", "cte-power", "generic", "marconi100", "requeue"));
}

}  // namespace
}  // namespace hvdrun
