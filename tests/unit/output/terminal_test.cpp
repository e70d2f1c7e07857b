// What stands on a terminal, through a pseudo-terminal.
#include "loop_fixture.hpp"

#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

namespace hvdrun {
namespace {

class TerminalTest : public OutputTest {
 protected:
  void SetUp() override {
    OutputTest::SetUp();
    int master = -1, slave = -1;
    winsize size{};
    size.ws_col = 80;
    termios modes{};
    ::cfmakeraw(&modes);
    ASSERT_EQ(::openpty(&master, &slave, nullptr, &modes, &size), 0);
    master_.reset(master);
    slave_.reset(slave);
    ASSERT_TRUE(set_nonblocking(master));
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
    ::unsetenv("COLORTERM");
  }
  void open_terminal(OutputSpec spec = {}) { open({slave_.get(), slave_.get()}, std::move(spec)); }
  std::string shown() {
    turn();
    return read_available(master_.get());
  }

  Fd master_, slave_;
};

TEST_F(TerminalTest, LabelsAreColouredByRank) {
  open_terminal();
  write(0, "a\n");
  write(1, "b\n", Stream::err);
  EXPECT_EQ(shown(), "\x1b[36m[0]\x1b[0m a\n\x1b[35m[1]\x1b[0m b\n");
}

TEST_F(TerminalTest, NoColorIsObeyed) {
  ::setenv("NO_COLOR", "1", 1);
  open_terminal();
  write(0, "a\n");
  EXPECT_EQ(shown(), "[0] a\n");
  output_.reset();
  open_terminal({.color = ColorMode::always});
  write(0, "a\n");
  EXPECT_EQ(shown(), "\x1b[36m[0]\x1b[0m a\n");
}

TEST_F(TerminalTest, ProgressIsRedrawnWhereTheTerminalCan) {
  open_terminal({.color = ColorMode::never});
  write(0, "50%\r");
  std::string text;
  run_until([&] { return !(text += shown()).empty(); });
  EXPECT_EQ(text, "[0] 50%");
  write(1, "x\n");
  EXPECT_EQ(shown(), "\r\x1b[K[1] x\n");
}

TEST_F(TerminalTest, ADumbTerminalGetsLinesOnly) {
  ::setenv("TERM", "dumb", 1);
  open_terminal();
  write(0, "50%\r");
  std::string text;
  run_until([&] { return !(text += shown()).empty(); });
  EXPECT_EQ(text, "[0] 50%\n");
}

TEST_F(TerminalTest, AStoppedTerminalCongestsAndDoesNotBlock) {
  open_terminal();
  const std::string chunk(64 * 1024 - 1, 'x');
  while (!output_->congested()) {
    write(0, chunk + "\n");
    turn();
  }
  EXPECT_EQ(::fcntl(slave_.get(), F_GETFL) & O_NONBLOCK, 0) << "the shell shares this flag";
  run_until([&] {
    read_available(master_.get());
    return output_->idle();
  });
  EXPECT_EQ(reliefs_, 1);
}

}  // namespace
}  // namespace hvdrun
