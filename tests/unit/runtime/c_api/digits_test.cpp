// The digits example as a user runs it, on one and more ranks.
#include "support.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace libhvd {
namespace {

struct JobResult {
  std::vector<int> exit_codes;
  std::string output;  // of all ranks
  std::string errors;
};

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void redirect(int to, const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file < 0 || ::dup2(file, to) < 0) ::_exit(98);
}

JobResult run_digits(int size, std::vector<std::string> options) {
  const test::TemporaryFolder folder;
  test::Job job(size, [&](int, const test::Child::Report&) {
    redirect(STDOUT_FILENO, folder.file("out"));
    redirect(STDERR_FILENO, folder.file("err"));
    options.insert(options.begin(), DIGITS_PROGRAM);
    std::vector<char*> arguments;
    for (auto& option : options) arguments.push_back(option.data());
    arguments.push_back(nullptr);
    ::execv(DIGITS_PROGRAM, arguments.data());
    ::_exit(97);
  });
  JobResult run;
  for (int rank = 0; rank < size; ++rank) {
    const int status = job.rank(rank).wait();
    run.exit_codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  run.output = read_file(folder.file("out"));
  run.errors = read_file(folder.file("err"));
  return run;
}

std::vector<double> losses_in(const std::string& output) {
  std::vector<double> losses;
  std::istringstream words(output);
  for (std::string word; words >> word;) {
    double loss = 0;
    if (word == "loss" && words >> loss) losses.push_back(loss);
  }
  return losses;
}

int count(const std::string& text, const std::string& part) {
  int times = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST(Digits, LossesDoNotDependOnTheNumberOfRanks) {
  const JobResult alone = run_digits(1, {"--epochs", "6"});
  const auto wanted = losses_in(alone.output);
  ASSERT_EQ(wanted.size(), 6u) << alone.output << alone.errors;
  for (int size = 2; size <= 4; ++size) {
    const JobResult run = run_digits(size, {"--epochs", "6"});
    EXPECT_EQ(run.exit_codes, std::vector<int>(static_cast<std::size_t>(size), 0)) << run.errors;
    const auto losses = losses_in(run.output);
    ASSERT_EQ(losses.size(), wanted.size()) << run.output;
    for (std::size_t epoch = 0; epoch < wanted.size(); ++epoch) {
      EXPECT_LE(std::abs(losses[epoch] - wanted[epoch]), 1e-5 * wanted[epoch])
          << size << " ranks, epoch " << epoch + 1;
    }
    for (int rank = 0; rank < size; ++rank) {
      const std::string line = "rank " + std::to_string(rank) + " of " + std::to_string(size);
      EXPECT_EQ(count(run.output, line), 1) << run.output;
    }
  }
}

TEST(Digits, RecognisesAtLeast95Percent) {
  const JobResult run = run_digits(2, {"--quiet"});
  double accuracy = 0;
  ASSERT_EQ(std::sscanf(run.output.c_str(), "test accuracy: %lf %%", &accuracy), 1) << run.output;
  EXPECT_GE(accuracy, 95.0);
}

// Parts of a batch may be empty: three ranks share batches of two.
TEST(Digits, WorksWithMoreRanksThanSamplesInABatch) {
  const JobResult run = run_digits(3, {"--batch", "2", "--epochs", "1", "--learning-rate", "0.01"});
  EXPECT_EQ(run.exit_codes, (std::vector<int>{0, 0, 0})) << run.errors;
}

TEST(Digits, ABadRowIsReportedOnceWithItsLine) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("bad.csv");
  std::string row;
  for (int pixel = 0; pixel < 64; ++pixel) row += "7,";
  std::ofstream(path) << row << "3\n" << row << "3\n" << row << "11\n";
  const JobResult run = run_digits(3, {"--data", path});
  EXPECT_EQ(run.exit_codes, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(run.errors, "digits: " + path + ":3: \"11\" is not an integer from 0 to 9\n");
}

TEST(Digits, ABadOptionIsReportedOnce) {
  const JobResult run = run_digits(2, {"--epochs", "0"});
  EXPECT_EQ(run.exit_codes, (std::vector<int>{2, 2}));
  EXPECT_EQ(count(run.errors, "--epochs takes a number from 1"), 1) << run.errors;
}

}  // namespace
}  // namespace libhvd
