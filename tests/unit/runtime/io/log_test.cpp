#include "io/log.hpp"

#include "support.hpp"

#include <fstream>
#include <regex>
#include <thread>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

const std::string kTime = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} )";

TEST(Log, PutsTheTimeBeforeEachLineAndAppendsToTheFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("train.log");
  for (int run = 0; run < 2; ++run) {
    auto log = Log::open(path);
    ASSERT_TRUE(log.ok()) << log.error().message;
    ASSERT_TRUE(log->write("one\ntw").ok());
    ASSERT_TRUE(log->write("o\n\nlast").ok());
  }
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 8u);
  const std::vector<std::string> texts{"one", "two", "", "last"};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_TRUE(std::regex_match(lines[i], std::regex(kTime + texts[i % 4]))) << lines[i];
  }
}

TEST(Log, WithoutAFileDiscardsTheText) {
  EXPECT_TRUE(Log().write("text\n").ok());
}

TEST(Log, FailsIfItCannotBeOpenedOrTheDiskIsFull) {
  const auto missing = Log::open("/no/such/folder/log");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message,
            "cannot open the log /no/such/folder/log: No such file or directory");

  auto full = Log::open("/dev/full");
  ASSERT_TRUE(full.ok());
  const auto written = full->write("lost\nkept for later");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().message, "cannot write to the log /dev/full: No space left on device");
}

TEST(Log, LinesOfSeveralThreadsAreNotMixed) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("log");
  {
    auto log = Log::open(path);
    ASSERT_TRUE(log.ok());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&log, thread] {
        for (int i = 0; i < 50; ++i) {
          ASSERT_TRUE(log->write(std::string(100, static_cast<char>('a' + thread)) + "\n").ok());
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  const auto lines = lines_of(path);
  EXPECT_EQ(lines.size(), 200u);
  const std::regex whole(kTime + R"(([a-d])\1{99})");
  for (const auto& line : lines) EXPECT_TRUE(std::regex_match(line, whole)) << line;
}

}  // namespace
}  // namespace libhvd
