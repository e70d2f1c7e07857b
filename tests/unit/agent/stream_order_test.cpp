#include "agent/stream_order.hpp"

#include <array>
#include <string>

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

StreamOrder order_of(std::string_view writes) {
  StreamOrder order;
  for (const char write : writes) order.add(write == 'o' ? StreamOrder::kOut : StreamOrder::kErr);
  return order;
}

TEST(StreamOrder, KeepsTheOrderOfAlternatingLines) {
  auto order = order_of("oeoe");
  EXPECT_EQ(arranged(order, "1\n3\n", "2\n4\n"), "o:1\ne:2\no:3\ne:4\n");
}

TEST(StreamOrder, KeepsABlockOfLinesTogether) {
  auto order = order_of("oeeee");
  EXPECT_EQ(arranged(order, "step 1\nstep 2\n", "Traceback\n  line\nError\n"),
            "o:step 1\nstep 2\ne:Traceback\n  line\nError\n");
  order = order_of("eoee");
  EXPECT_EQ(arranged(order, "step\n", "warning\nTraceback\nError\n"),
            "e:warning\no:step\ne:Traceback\nError\n");
}

TEST(StreamOrder, KeepsTheOrderOfLaterWrites) {
  auto order = order_of("oeoe");
  EXPECT_EQ(arranged(order, "1\n", "2\n"), "o:1\ne:2\n");
  EXPECT_EQ(arranged(order, "3\n", "4\n"), "o:3\ne:4\n");
}

TEST(StreamOrder, LosesNothingIfTheOrderIsUnknown) {
  StreamOrder order;
  EXPECT_EQ(arranged(order, "1\n2", "3\n"), "o:1\n2e:3\n");
  order = order_of("e");
  EXPECT_EQ(arranged(order, "1\n2", "3\n4"), "e:3\n4o:1\n2");
  EXPECT_EQ(arranged(order, "", ""), "");
}

TEST(StreamOrder, PipeThatIsReadInBulkComesFirstOnce) {
  std::array<int, 2> out{}, err{};
  ASSERT_EQ(::pipe(out.data()), 0);
  ASSERT_EQ(::pipe(err.data()), 0);
  StreamOrder order(out[0], err[0]);
  for (int time = 0; time < StreamOrder::kBulk; ++time) order.only(StreamOrder::kOut);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(::write(err[1], "e\n", 2), 2);
    EXPECT_EQ(::write(out[1], "o\n", 2), 2);
    order.update();
    EXPECT_EQ(arranged(order, "o\n", "e\n"), round == 0 ? "o:o\ne:e\n" : "e:e\no:o\n");
  }
  for (const int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
}

TEST(StreamOrder, FollowsWritesToPipes) {
  std::array<int, 2> out{}, err{};
  ASSERT_EQ(::pipe(out.data()), 0);
  ASSERT_EQ(::pipe(err.data()), 0);
  StreamOrder order(out[0], err[0]);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(::write(err[1], "e\n", 2), 2);
    EXPECT_EQ(::write(out[1], "o\n", 2), 2);
  }
  order.update();
  EXPECT_EQ(arranged(order, "o\no\no\n", "e\ne\ne\n"), "e:e\no:o\ne:e\no:o\ne:e\no:o\n");
  for (const int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
}

}  // namespace
}  // namespace hvdrun
