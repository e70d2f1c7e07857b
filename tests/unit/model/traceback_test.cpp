// Tests what is taken for a traceback, and which of the last lines have the cause.
#include "model/traceback.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using Lines = std::vector<std::string>;

const Lines kValueError = {"Traceback (most recent call last):",
                           "  File \"t.py\", line 3, in <module>", "    f()", "ValueError: bad"};

Lines after(Lines first, const Lines& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(Traceback, CauseBeginsAtTheTraceback) {
  EXPECT_EQ(cause_lines(after({"epoch 1", " 30%|###   | 3/10 [00:01<00:02, 3it/s]"}, kValueError)),
            kValueError);
  auto glued = after({"t.py:1: UserWarning: old"}, kValueError);
  glued[1] = "30%|## | 3/10" + glued[1];
  EXPECT_EQ(cause_lines(glued), kValueError);
  EXPECT_EQ(cause_lines(after(kValueError, {"[W] destroy_process_group() was not called"})).front(),
            kValueError.front());
}

TEST(Traceback, CauseIsTheWholeChainButNotAnEarlierTraceback) {
  const Lines chain =
      after(after(kValueError,
                  {"", "During handling of the above exception, another exception occurred:", ""}),
            kValueError);
  EXPECT_EQ(cause_lines(after(after(kValueError, {"caught that"}), chain)), chain);
}

TEST(Traceback, WithoutOneBarsAndWarningsAreLeftOut) {
  EXPECT_EQ(cause_lines({"100%|####| 10/10 [00:01<00:00, 9it/s]", "/a/t.py:13: UserWarning: old",
                         "  warnings.warn(\"old\")", "cannot open data.bin",
                         "13/50 [====>....] - loss: 1"}),
            Lines{"cannot open data.bin"});
  const Lines bar = {"100%|####| 10/10 [00:01<00:00, 9it/s]"};
  EXPECT_EQ(cause_lines(bar), bar) << "better than nothing";
  EXPECT_EQ(cause_lines({"Warning: low on memory"}), Lines{"Warning: low on memory"});
  EXPECT_EQ(cause_lines({"    g()", "  File \"t.py\", line 9, in g", "KeyError: 3"}).size(), 3u)
      << "the end of a long traceback";
}

TEST(Traceback, ExceptionsAreFoundWithPyTorchsLabel) {
  Lines labelled;
  for (const auto& line : kValueError) labelled.push_back("[rank12]: " + line);
  EXPECT_EQ(exception_at_end(labelled), "ValueError: bad");
  EXPECT_EQ(last_exception(after(labelled, {"[rank12]:[W] left"})), "ValueError: bad");
  EXPECT_EQ(cause_lines(after({"step 1"}, labelled)), labelled);
  EXPECT_EQ(last_exception({"ValueError: printed by the program"}), "");
}

TEST(Traceback, PeerErrorsAreThoseOfAClosedConnection) {
  EXPECT_TRUE(
      is_peer_error("RuntimeError: [pair.cc:598] Connection closed by peer [127.0.0.1]:38065"));
  EXPECT_TRUE(is_peer_error("ConnectionResetError: [Errno 104] Connection reset by peer"));
  EXPECT_FALSE(is_peer_error("RuntimeError: Connection refused"));
  EXPECT_FALSE(is_peer_error(""));
}

}  // namespace
}  // namespace hvdrun
