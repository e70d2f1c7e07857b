#include "job/exception_watch.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Lines = std::vector<std::string>;

// Time that jumps to the next timer.
class JumpingTime final : public TimeSource {
 public:
  Clock::time_point now() const override { return now_; }
  bool run_due() override { return false; }
  bool pass(std::optional<Clock::time_point> limit) override {
    if (!limit) return false;
    now_ = *limit;
    return true;
  }

 private:
  Clock::time_point now_;
};

const Lines kTraceback{"Traceback (most recent call last):", "  File \"train.py\", line 3",
                       "    raise RuntimeError", "RuntimeError: unhappy"};

// Three ranks on a host, and what the user would see of them.
class ExceptionWatchTest : public testing::Test {
 protected:
  static RankTable three_ranks() {
    Placement placement;
    placement.size = 3;
    placement.hosts.emplace_back().host = "n1";
    for (int rank = 0; rank < 3; ++rank) placement.hosts[0].ranks.emplace_back().rank = rank;
    return {placement, {}};
  }

  void print_stderr(int rank, Lines lines) {
    last_stderr_.at(static_cast<std::size_t>(rank)) = std::move(lines);
    watch_.on_output(rank, Stream::err);
  }

  // Lets time pass until no timer runs.
  void run() { loop_.run(); }

  JumpingTime time_;
  EventLoop loop_{&time_};
  RankTable table_ = three_ranks();
  std::vector<Lines> last_stderr_ = std::vector<Lines>(3);
  Lines warnings_;
  ExceptionWatch watch_{
      loop_, table_, [this](int rank) { return last_stderr_.at(static_cast<std::size_t>(rank)); },
      [this](const std::string& text) { warnings_.push_back(text); }};
};

TEST_F(ExceptionWatchTest, NamesARankThatPrintedAnExceptionAndDoesNotEnd) {
  print_stderr(1, kTraceback);
  run();
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("rank 1 has printed an exception"),
                                           HasSubstr("RuntimeError: unhappy"),
                                           HasSubstr("python3 -m mpi4py"))));
}

TEST_F(ExceptionWatchTest, NamesARankOnce) {
  print_stderr(1, kTraceback);
  run();
  print_stderr(1, kTraceback);
  run();
  EXPECT_EQ(warnings_.size(), 1);
}

TEST_F(ExceptionWatchTest, NamesSeveralRanksInOneLine) {
  for (const int rank : {0, 2}) print_stderr(rank, kTraceback);
  run();
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("ranks 0,2 have printed an exception")));
}

TEST_F(ExceptionWatchTest, DoesNotNameARankThatEnds) {
  print_stderr(1, kTraceback);
  ExitedMessage exited;
  exited.rank = 1;
  ASSERT_TRUE(table_.exited(exited, time_.now()));
  run();
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ExceptionWatchTest, DoesNotNameARankThatPrintsMore) {
  print_stderr(1, kTraceback);
  Timer prints(loop_, [this] { watch_.on_output(1, Stream::out); });
  prints.start(std::chrono::seconds(15));
  Timer recovers(loop_, [this] { print_stderr(1, {"epoch 2"}); });
  recovers.start(std::chrono::seconds(19));
  run();
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ExceptionWatchTest, DoesNotNameARankWithoutATraceback) {
  print_stderr(1, {"RuntimeError: unhappy"});
  run();
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ExceptionWatchTest, NamesNoRankAfterItsEnd) {
  print_stderr(1, kTraceback);
  watch_.end();
  run();
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace hvdrun
