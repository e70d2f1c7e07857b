// hvd::write_file() and hvd::AtomicFile of the C++ API, without hvd_init.
#include "support.hpp"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <hvd/io.hpp>

namespace libhvd {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WriteFile, ReplacesTheWholeFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("result.json");
  hvd::write_file(path, std::string(100000, 'a'));
  hvd::write_file(path, "short");
  EXPECT_EQ(content_of(path), "short");
  EXPECT_EQ(folder.entries().size(), 1u);
}

TEST(AtomicFile, KeepsTheOldFileWithoutACommit) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("result.json");
  hvd::write_file(path, "old");
  {
    hvd::AtomicFile file(path);
    file.write("new");
    EXPECT_EQ(content_of(path), "old");
  }
  EXPECT_EQ(content_of(path), "old");
  EXPECT_EQ(folder.entries().size(), 1u);
}

TEST(AtomicFile, FailsInAMissingFolder) {
  try {
    hvd::AtomicFile file("/no/such/folder/file");
    FAIL() << "no error";
  } catch (const hvd::Error& error) {
    EXPECT_EQ(error.status(), HVD_ERROR_SYSTEM);
    EXPECT_NE(std::string(error.what()).find("/no/such/folder"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace libhvd
