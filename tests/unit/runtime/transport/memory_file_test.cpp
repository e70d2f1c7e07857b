#include "transport/memory_file.hpp"

#include "support.hpp"

#include <cerrno>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace libhvd {
namespace {

TEST(MemoryFile, IsReachedThroughItsLink) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("memory");
  {
    auto made = MemoryFile::create(path);
    ASSERT_TRUE(made.ok()) << made.error().message;
    ASSERT_EQ(::pwrite(made->get(), "word", 4, 8192), 4);
    const auto opened = MemoryFile::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    char word[4] = {};
    EXPECT_EQ(::pread(opened->get(), word, 4, 8192), 4);
    EXPECT_EQ(std::string(word, 4), "word");
    made->remove_link();
    EXPECT_TRUE(folder.entries().empty());
    EXPECT_FALSE(MemoryFile::open(path).ok());
  }
  { EXPECT_TRUE(MemoryFile::create(path).ok()); }
  EXPECT_TRUE(folder.entries().empty()) << "the link is left after destruction";
}

TEST(MemoryFile, IsReachedFromAnotherProcess) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("memory");
  const auto made = MemoryFile::create(path);
  ASSERT_TRUE(made.ok());
  test::Child child([&](const test::Child::Report& report) {
    ::close(made->get());  // not the inherited descriptor
    const auto opened = MemoryFile::open(path);
    report(opened.ok() && ::pwrite(opened->get(), "word", 4, 0) == 4 ? "ok" : "cannot open it");
  });
  EXPECT_EQ(child.line(), "ok");
  char word[4] = {};
  EXPECT_EQ(::pread(made->get(), word, 4, 0), 4);
}

TEST(MemoryFile, ReservesMemoryButNotMoreThanTheMachineHas) {
  const auto made = MemoryFile::create();
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->reserve(4096, 8192), 0);
  struct stat status {};
  ASSERT_EQ(::fstat(made->get(), &status), 0);
  EXPECT_EQ(status.st_size, 4096 + 8192);
  EXPECT_EQ(status.st_blocks * 512, 8192);
  EXPECT_EQ(made->reserve(0, std::size_t{1} << 50), ENOMEM) << "no machine has a petabyte";
}

TEST(MemoryFile, CreateFailsIfTheLinkCannotBeMade) {
  const auto made = MemoryFile::create("/nonexistent/memory");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message,
            "cannot make a link as /nonexistent/memory: No such file or directory");
}

}  // namespace
}  // namespace libhvd
