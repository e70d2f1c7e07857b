#include "common/file_content.hpp"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace common {
namespace {

// A file of /proc that can be opened and not read: its process has ended since.
class FileOfAnEndedProcess {
 public:
  explicit FileOfAnEndedProcess(const char* name) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    fd_ = ::open(("/proc/" + std::to_string(child) + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ~FileOfAnEndedProcess() { ::close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_ = -1;
};

TEST(ReadContent, ReturnsTheErrorOfAFileThatFailsAfterItsOpening) {
  for (const char* name : {"stat", "status", "wchan"}) {
    const FileOfAnEndedProcess file(name);
    const auto content = read_content(file.path());
    ASSERT_FALSE(content) << name;
    EXPECT_EQ(content.error(), ESRCH) << name;
    EXPECT_EQ(content_of(file.path()), "") << name;
    EXPECT_EQ(first_line_of(file.path()), "") << name;
  }
}

TEST(ReadContent, ReturnsTheErrorsOfOpenAndRead) {
  EXPECT_EQ(read_content("/there/is/none").error(), ENOENT);
  EXPECT_EQ(read_content("/proc").error(), EISDIR);
  EXPECT_EQ(content_of("/proc"), "");
}

TEST(ReadContent, ReadsAPartOfAFile) {
  const std::string path = testing::TempDir() + "content_" + std::to_string(::getpid());
  const std::string large(100'000, 'x');
  std::ofstream(path) << "first\nsecond" << large;
  EXPECT_EQ(first_line_of(path), "first");
  EXPECT_EQ(content_of(path, 8), "first\nse");
  EXPECT_EQ(*read_content(path, 6, 6), "second");
  EXPECT_EQ(content_of(path), "first\nsecond" + large);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace common
