// FolderSource, with one sub-folder per class: which files are samples, in which order, with which
// labels.
#include "io/folder_source.hpp"

#include "support.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace libhvd {
namespace {

namespace fs = std::filesystem;

class FolderSourceTest : public testing::Test {
 protected:
  void put(const std::string& file, const std::string& text = "x") {
    const fs::path path = fs::path(folder_.path()) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  fs::path path(const std::string& file) const { return fs::path(folder_.path()) / file; }

  Result<std::unique_ptr<FolderSource>> open(std::string_view extensions = kImageExtensions) {
    return FolderSource::open(folder_.path(), extensions);
  }
  std::string error(std::string_view extensions = kImageExtensions) {
    const auto source = open(extensions);
    return source.ok() ? "none" : source.error().message;
  }

  // Returns "label file" of every sample, with the file's path relative to the folder.
  std::vector<std::string> samples(std::string_view extensions = kImageExtensions) {
    const auto source = open(extensions);
    if (!source.ok()) return {source.error().message};
    std::vector<std::string> found;
    for (std::int64_t i = 0; i < (*source)->samples(); ++i) {
      found.push_back(std::to_string((*source)->label(i)) + " " +
                      (*source)->name(i).substr(folder_.path().string().size() + 1));
    }
    return found;
  }

  test::TemporaryFolder folder_;
};

using Samples = std::vector<std::string>;

TEST_F(FolderSourceTest, LabelsAreNumbersOfTheSortedClasses) {
  put("dog/1.jpg");
  put("cat/2.jpg");
  put("cat/1.jpg");
  put("Zebra/1.png");
  put("beside.jpg");
  EXPECT_EQ(samples(), (Samples{"0 Zebra/1.png", "1 cat/1.jpg", "1 cat/2.jpg", "2 dog/1.jpg"}));
  EXPECT_EQ((*open())->classes(), (Samples{"Zebra", "cat", "dog"}));
}

// ImageFolder of torchvision sorts the folders by path, and then each folder's files by name.
TEST_F(FolderSourceTest, NestedFilesAreInTheOrderOfTheirFolders) {
  put("a/z.png");
  put("a/sub/1.png");
  put("a/sub-b/1.png");
  put("a/sub/deep/0.png");
  EXPECT_EQ(samples(),
            (Samples{"0 a/z.png", "0 a/sub/1.png", "0 a/sub-b/1.png", "0 a/sub/deep/0.png"}));
}

TEST_F(FolderSourceTest, OnlyFilesWithTheExtensionsAreSamples) {
  put("a/1.JPG");
  put("a/2.webp");
  put("a/3.txt");
  put("a/4");
  EXPECT_EQ(samples(), (Samples{"0 a/1.JPG", "0 a/2.webp"}));
  EXPECT_EQ(samples(".TXT"), (Samples{"0 a/3.txt"}));
  EXPECT_EQ(samples(".txt,.jpg"), (Samples{"0 a/1.JPG", "0 a/3.txt"}));
  EXPECT_EQ(samples("").size(), 4u);
}

TEST_F(FolderSourceTest, LinksAreFollowedAndPipesAreNot) {
  put("a/1.png");
  fs::create_directory_symlink(path("a"), path("b"));
  fs::create_symlink(path("a/1.png"), path("a/2.png"));
  fs::create_symlink(path("nothing"), path("a/3.png"));
  ASSERT_EQ(::mkfifo(path("a/4.png").c_str(), 0600), 0);
  EXPECT_EQ(samples(), (Samples{"0 a/1.png", "0 a/2.png", "1 b/1.png", "1 b/2.png"}));
}

TEST_F(FolderSourceTest, AFolderThatContainsItselfFails) {
  put("a/1.png");
  fs::create_directory_symlink(path("a"), path("a/again"));
  EXPECT_NE(error().find("a/again contains itself, through a link"), std::string::npos) << error();
}

TEST_F(FolderSourceTest, NamesTheFolderThatLacksFiles) {
  EXPECT_NE(error().find("has no sub-folders"), std::string::npos) << error();
  put("a/1.png");
  put("b/readme.txt");
  EXPECT_NE(error().find("b has no files that end in .jpg"), std::string::npos) << error();
  const auto nowhere = FolderSource::open(path("nowhere"), "");
  EXPECT_NE(nowhere.error().message.find("nowhere: No such file"), std::string::npos);
}

TEST_F(FolderSourceTest, ReadAppendsTheBytesOfTheFile) {
  put("a/1.png", "first");
  put("a/2.png", "");
  put("b/1.png", std::string(100'000, 'x'));
  const auto source = open();
  ByteBuffer bytes;
  ASSERT_TRUE((*source)->read(0, bytes).ok());
  ASSERT_TRUE((*source)->read(1, bytes).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "first");
  ASSERT_TRUE((*source)->read(2, bytes).ok());
  EXPECT_EQ(bytes.size(), 100'005u);
}

TEST_F(FolderSourceTest, ReadingARemovedFileFails) {
  put("a/1.png");
  put("a/2.png");
  const auto source = open();
  fs::remove(path("a/1.png"));
  fs::remove(path("a/2.png"));
  ASSERT_EQ(::mkfifo(path("a/2.png").c_str(), 0600), 0);
  ByteBuffer bytes;
  EXPECT_EQ((*source)->read(0, bytes).error().message,
            "cannot be opened: No such file or directory");
  EXPECT_EQ((*source)->read(1, bytes).error().message, "is not a regular file");
}

TEST_F(FolderSourceTest, FingerprintChangesWithTheFiles) {
  put("a/1.png");
  put("b/1.png");
  const std::uint32_t before = (*open())->fingerprint();
  EXPECT_EQ((*open())->fingerprint(), before);
  put("b/2.png");
  EXPECT_NE((*open())->fingerprint(), before);
}

}  // namespace
}  // namespace libhvd
