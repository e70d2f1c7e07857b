// What rank 0 does for all, with ranks as processes through the C++ API.
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

// What `body` throws, or what it gives.
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

// Runs body on all ranks; each tells what it gave.
template <class Body>
std::vector<std::string> on_ranks(Body body) {
  test::Job job(kSize, [&](int, const test::Child::Tell& tell) {
    hvd::init();
    tell(outcome_of(body));
    tell(outcome_of([] { return std::to_string(hvd::allreduce(1, hvd::Op::sum)); }));
    hvd::shutdown();
  });
  std::vector<std::string> told;
  for (int rank = 0; rank < kSize; ++rank) {
    told.push_back(job.rank(rank).line().value_or("nothing"));
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "3") << "the next collective";
    EXPECT_EQ(job.rank(rank).wait(), 0);
  }
  return told;
}

TEST(OnRank0, GivesItsResultToAll) {
  const auto told = on_ranks([] {
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
  EXPECT_EQ(told, (std::vector<std::string>{"right here", "right", "right"}));
}

TEST(OnRank0, AnExceptionIsAnErrorOnAll) {
  const auto told = on_ranks([]() -> std::string {
    hvd::on_rank0([] { throw std::runtime_error("no such file"); });
    return "went on";
  });
  EXPECT_EQ(told, (std::vector<std::string>{"exception no such file", "10 rank 0: no such file",
                                            "10 rank 0: no such file"}));
}

TEST(OnRank0, AnErrorKeepsItsStatus) {
  const auto told = on_ranks([]() -> std::string {
    hvd::on_rank0([] { throw hvd::Error(HVD_ERROR_TIMEOUT, "too late"); });
    return "went on";
  });
  EXPECT_EQ(told,
            (std::vector<std::string>{"7 too late", "7 rank 0: too late", "7 rank 0: too late"}));
}

TEST(OnRank0, ACollectiveInItIsAnErrorOnAll) {
  const auto told = on_ranks([]() -> std::string {
    hvd::on_rank0([] { hvd::allreduce(1, hvd::Op::sum); });
    return "went on";
  });
  for (const auto& line : told) {
    EXPECT_EQ(line.substr(0, 2), "1 ") << line;
    EXPECT_NE(line.find("hvd_allreduce: called in what one rank runs for all"), std::string::npos)
        << line;
  }
}

TEST(OnRank0, ItsDeathIsAnErrorOnTheOthers) {
  test::Job job(kSize, [](int, const test::Child::Tell& tell) {
    hvd::init();
    tell(outcome_of([] {
      hvd::on_rank0([] { ::kill(::getpid(), SIGKILL); });
      return std::string("went on");
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
  const std::string path = folder.path() + "/log";
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

TEST(SharedLog, ThatCannotBeOpenedIsAnErrorOnAll) {
  const auto told = on_ranks([]() -> std::string {
    hvd::Log log("/no/such/folder/log");
    return "went on";
  });
  const std::string why = "cannot open the log /no/such/folder/log: No such file or directory";
  EXPECT_EQ(told, (std::vector<std::string>{"8 " + why, "8 rank 0: " + why, "8 rank 0: " + why}));
}

TEST(RankFile, HasItsOwnPathOnEachRank) {
  const auto told = on_ranks([] { return hvd::rank_path("out-{rank}.txt"); });
  EXPECT_EQ(told, (std::vector<std::string>{"out-0.txt", "out-1.txt", "out-2.txt"}));
}

}  // namespace
}  // namespace libhvd
