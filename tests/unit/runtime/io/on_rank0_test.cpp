// hvd::on_rank0() and logs that rank 0 writes, with ranks as processes.
#include "support.hpp"

#include <fstream>
#include <iterator>
#include <numeric>

#include <gtest/gtest.h>
#include <hvd/io.hpp>
#include <signal.h>
#include <unistd.h>

namespace libhvd {
namespace {

constexpr int kSize = 3;

// Returns what `body` returns, or the text of what it throws.
template <class Body>
std::string outcome_of(Body body) {
  try {
    return body();
  } catch (const hvd::Error& error) {
    return std::to_string(error.status()) + " " + error.what();
  } catch (const std::exception& exception) {
    return std::string("exception ") + exception.what();
  }
}

// Runs the body on all ranks, and returns what each reports. Then the next collective must work.
template <class Body>
std::vector<std::string> on_ranks(Body body) {
  test::Job job(kSize, [&](int, const test::Child::Report& report) {
    hvd::init();
    report(outcome_of(body));
    report(outcome_of([] { return std::to_string(hvd::allreduce(1, hvd::Op::sum)); }));
    hvd::shutdown();
  });
  std::vector<std::string> lines;
  for (int rank = 0; rank < kSize; ++rank) {
    lines.push_back(job.rank(rank).line().value_or("nothing"));
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "3") << "the next collective";
    EXPECT_EQ(job.rank(rank).wait(), 0);
  }
  return lines;
}

TEST(OnRank0, ReturnsTheResultOnEveryRank) {
  const auto lines = on_ranks([] {
    int calls = 0;
    hvd::on_rank0([&] { ++calls; });
    const std::string text = hvd::on_rank0([] { return std::string("words"); });
    const auto numbers = hvd::on_rank0([] { return std::vector<double>(100000, 0.5); });
    const double sum = std::accumulate(numbers.begin(), numbers.end(), 0.0);
    const std::size_t none = hvd::on_rank0([] { return std::string(); }).size();
    const int number = hvd::on_rank0([] { return 42; });
    const bool right = text == "words" && sum == 50000 && none == 0 && number == 42;
    return std::string(right ? "right" : "wrong") + (calls == 1 ? " here" : "");
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"right here", "right", "right"}));
}

TEST(OnRank0, AnExceptionFailsOnEveryRank) {
  const auto lines = on_ranks([]() -> std::string {
    hvd::on_rank0([] { throw std::runtime_error("no such file"); });
    return "continued";
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"exception no such file", "10 rank 0: no such file",
                                             "10 rank 0: no such file"}));
}

TEST(OnRank0, AnErrorKeepsItsStatus) {
  const auto lines = on_ranks([]() -> std::string {
    hvd::on_rank0([] { throw hvd::Error(HVD_ERROR_TIMEOUT, "too late"); });
    return "continued";
  });
  EXPECT_EQ(lines,
            (std::vector<std::string>{"7 too late", "7 rank 0: too late", "7 rank 0: too late"}));
}

TEST(OnRank0, ACollectiveInTheBodyFailsOnEveryRank) {
  const auto lines = on_ranks([]() -> std::string {
    hvd::on_rank0([] { hvd::allreduce(1, hvd::Op::sum); });
    return "continued";
  });
  for (const auto& line : lines) {
    EXPECT_EQ(line.substr(0, 2), "1 ") << line;
    EXPECT_NE(line.find("hvd_allreduce: called in what one rank runs for all"), std::string::npos)
        << line;
  }
}

TEST(OnRank0, ADeathInTheBodyFailsTheOtherRanks) {
  test::Job job(kSize, [](int, const test::Child::Report& report) {
    hvd::init();
    report(outcome_of([] {
      hvd::on_rank0([] { ::kill(::getpid(), SIGKILL); });
      return std::string("continued");
    }));
    hvd::shutdown();
  });
  for (int rank = 1; rank < kSize; ++rank) {
    const std::string line = job.rank(rank).line().value_or("nothing");
    EXPECT_EQ(line.substr(0, 2), "4 ") << line;
    EXPECT_NE(line.find("rank 0"), std::string::npos) << line;
  }
}

TEST(SharedLog, IsWrittenByRank0Only) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("log");
  on_ranks([&] {
    hvd::Log log(path);
    log << "epoch " << 1 << '\n' << "loss " << 0.5;
    return std::string("done");
  });
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(text.find(" epoch 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" loss 0.5\n"), std::string::npos) << text;
}

TEST(SharedLog, FailsOnEveryRankIfItCannotBeOpened) {
  const auto lines = on_ranks([]() -> std::string {
    hvd::Log log("/no/such/folder/log");
    return "continued";
  });
  const std::string why = "cannot open the log /no/such/folder/log: No such file or directory";
  EXPECT_EQ(lines, (std::vector<std::string>{"8 " + why, "8 rank 0: " + why, "8 rank 0: " + why}));
}

TEST(RankFile, HasADifferentPathOnEachRank) {
  const auto lines = on_ranks([] { return hvd::rank_path("out-{rank}.txt"); });
  EXPECT_EQ(lines, (std::vector<std::string>{"out-0.txt", "out-1.txt", "out-2.txt"}));
}

}  // namespace
}  // namespace libhvd
