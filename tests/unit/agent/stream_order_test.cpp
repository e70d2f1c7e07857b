#include "agent/stream_order.hpp"

#include "agent/pipe_writes.hpp"
#include "base/system.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Returns the pieces as text: "o:" before bytes of stdout, "e:" before bytes of stderr.
std::string arranged(StreamOrder& order, std::string_view out, std::string_view err) {
  std::string text;
  for (const auto& piece : order.arrange(out, err)) {
    text += piece.pipe == StreamOrder::kOut ? "o:" : "e:";
    text += piece.bytes;
  }
  return text;
}

void add(StreamOrder& order, std::string_view writes) {
  for (const char write : writes) order.add(write == 'o' ? StreamOrder::kOut : StreamOrder::kErr);
}

TEST(StreamOrder, KeepsTheOrderOfAlternatingLines) {
  StreamOrder order;
  add(order, "oeoe");
  EXPECT_EQ(arranged(order, "1\n3\n", "2\n4\n"), "o:1\ne:2\no:3\ne:4\n");
}

TEST(StreamOrder, KeepsABlockOfLinesTogether) {
  StreamOrder order;
  add(order, "oeeee");
  EXPECT_EQ(arranged(order, "step 1\nstep 2\n", "Traceback\n  line\nError\n"),
            "o:step 1\nstep 2\ne:Traceback\n  line\nError\n");
  add(order, "eoee");
  EXPECT_EQ(arranged(order, "step\n", "warning\nTraceback\nError\n"),
            "e:warning\no:step\ne:Traceback\nError\n");
}

TEST(StreamOrder, KeepsTheOrderOfLaterWrites) {
  StreamOrder order;
  add(order, "oeoe");
  EXPECT_EQ(arranged(order, "1\n", "2\n"), "o:1\ne:2\n");
  EXPECT_EQ(arranged(order, "3\n", "4\n"), "o:3\ne:4\n");
}

TEST(StreamOrder, LosesNothingIfTheOrderIsUnknown) {
  StreamOrder order;
  EXPECT_EQ(arranged(order, "1\n2", "3\n"), "o:1\n2e:3\n");
  add(order, "e");
  EXPECT_EQ(arranged(order, "1\n2", "3\n4"), "e:3\n4o:1\n2");
  EXPECT_EQ(arranged(order, "", ""), "");
}

class StreamOrderOfPipes : public ::testing::Test {
 protected:
  void SetUp() override {
    for (Pipe* const pipe : {&out_, &err_}) {
      auto made = make_pipe();
      ASSERT_TRUE(made);
      *pipe = std::move(*made);
    }
    order_.emplace(writes_, out_.read.get(), err_.read.get());
  }

  static void write(const Pipe& pipe, std::string_view text) {
    ASSERT_EQ(::write(pipe.write.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  // Returns the arranged text, as the forwarder does.
  std::string arranged_now(std::string_view out, std::string_view err) {
    order_->update();
    order_->leave_out_ends();
    return arranged(*order_, out, err);
  }

  EventLoop loop_;
  PipeWrites writes_{loop_};
  Pipe out_;
  Pipe err_;
  std::optional<StreamOrder> order_;  // ends before the pipes
};

TEST_F(StreamOrderOfPipes, PipeThatIsReadInBulkComesFirstOnce) {
  for (int time = 0; time < StreamOrder::kBulk; ++time) order_->only(StreamOrder::kOut);
  for (int round = 0; round < 2; ++round) {
    write(err_, "e\n");
    write(out_, "o\n");
    EXPECT_EQ(arranged_now("o\n", "e\n"), round == 0 ? "o:o\ne:e\n" : "e:e\no:o\n");
  }
}

TEST_F(StreamOrderOfPipes, FollowsWrites) {
  for (int round = 0; round < 3; ++round) {
    write(err_, "e\n");
    write(out_, "o\n");
  }
  EXPECT_EQ(arranged_now("o\no\no\n", "e\ne\ne\n"), "e:e\no:o\ne:e\no:o\ne:e\no:o\n");
}

// The kernel reports the end of a pipe as it does a write.
TEST_F(StreamOrderOfPipes, EndOfAPipeIsNoWrite) {
  write(err_, "Traceback\n  line\nError\n");
  write(out_, "step\n");
  out_.write.reset();
  err_.write.reset();
  EXPECT_EQ(arranged_now("step\n", "Traceback\n  line\nError\n"),
            "e:Traceback\n  line\nError\no:step\n");
}

TEST_F(StreamOrderOfPipes, EndOfAPipeThatIsNotWatchedIsNoWrite) {
  for (int time = 0; time < StreamOrder::kBulk; ++time) order_->only(StreamOrder::kOut);
  out_.write.reset();
  write(err_, "1\n");
  EXPECT_EQ(arranged_now("o\n", "1\n"), "o:o\ne:1\n");
  write(err_, "2\n");
  EXPECT_EQ(arranged_now("", "2\n"), "e:2\n");
}

}  // namespace
}  // namespace hvdrun
