// Tests how hvdrun help finds a page.
#include "commands/help_topics.hpp"

#include "../temporary_folder.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr std::string_view kCommands[] = {"jobs", "sbatch"};

TEST(HelpTopics, AreThePagesByNameAndTheIndexOfAFolderByThatOfTheFolder) {
  const TemporaryFolder folder;
  for (const auto* name : {"frameworks", "reference"})
    std::filesystem::create_directory(folder.path() / name);
  for (const auto* name : {"index.md", "frameworks/index.md", "frameworks/torch.md",
                           "reference/exit-codes.md", "reference/hvdrun.1"})
    std::ofstream(folder.path() / name) << "# Title\n";
  const auto topics = find_topics(folder.path());
  ASSERT_EQ(topics.size(), 3u);
  EXPECT_EQ(topics[0].name, "exit-codes");
  EXPECT_EQ(topics[1].name, "frameworks");
  for (const auto* word : {"exit-codes", "exit_codes", "codes", "reference/exit-codes.md"})
    EXPECT_EQ(find_topic(topics, kCommands, word)->name, "exit-codes") << word;
  EXPECT_EQ(find_topic(topics, kCommands, "pytorch")->name, "torch");
  EXPECT_THAT(find_topic(topics, kCommands, "sbacth").error().message,
              ::testing::HasSubstr("; did you mean sbatch?"));
  EXPECT_EQ(find_topic(topics, kCommands, "tprch").error().message,
            "hvdrun help has no topic \"tprch\"; did you mean torch? hvdrun help topics lists all");
  EXPECT_EQ(find_topic(topics, kCommands, "Torch")->name, "torch");
  EXPECT_EQ(find_topic(topics, kCommands, "137").error().message,
            "hvdrun help has no topic \"137\"; hvdrun help exit-codes has the numbers; hvdrun help "
            "topics lists all");
  EXPECT_THAT(find_topic(topics, kCommands, "-np").error().message,
              ::testing::HasSubstr("\"-np\"; hvdrun --help lists the options; hvdrun help topics"));
  EXPECT_THAT(
      find_topic(topics, kCommands, "fold").error().message,
      ::testing::HasSubstr("\"fold\"; --fold-lines is an option: man hvdrun; hvdrun help topics"));
  EXPECT_THAT(find_topic(topics, kCommands, "output").error().message,
              ::testing::HasSubstr("; --output-filename is an option"));
  EXPECT_TRUE(find_topics(folder.path() / "nosuch").empty());
}

TEST(HelpTopics, OfPagesWithOneNameTheOneWithTheShorterPathHasIt) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "reference/formats");
  std::filesystem::create_directory(folder.path() / "train");
  for (const auto* name : {"reference/formats/scaling.md", "train/scaling.md"})
    std::ofstream(folder.path() / name) << "# Title\n";
  const auto topics = find_topics(folder.path());
  ASSERT_EQ(topics.size(), 2u);
  EXPECT_EQ(find_topic(topics, kCommands, "scaling")->file, folder.path() / "train/scaling.md");
  EXPECT_EQ(find_topic(topics, kCommands, "formats/scaling")->file,
            folder.path() / "reference/formats/scaling.md");
}

}  // namespace
}  // namespace hvdrun
