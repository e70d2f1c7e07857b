// Tests the output on a terminal, with a pseudo-terminal.
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

TEST_F(TerminalTest, NoColorTurnsColorsOff) {
  ::setenv("NO_COLOR", "1", 1);
  open_terminal();
  write(0, "a\n");
  EXPECT_EQ(shown(), "[0] a\n");
  output_.reset();
  open_terminal({.color = ColorMode::always});
  write(0, "a\n");
  EXPECT_EQ(shown(), "\x1b[36m[0]\x1b[0m a\n");
}

TEST_F(TerminalTest, ProgressIsRedrawnIfTheTerminalCanErase) {
  open_terminal({.color = ColorMode::never});
  write(0, "50%\r");
  std::string text;
  run_until([&] { return !(text += shown()).empty(); });
  EXPECT_EQ(text, "[0] 50%");
  write(1, "x\n");
  EXPECT_EQ(shown(), "\r\x1b[K[1] x\n");
}

TEST_F(TerminalTest, DumbTerminalGetsOnlyLines) {
  ::setenv("TERM", "dumb", 1);
  open_terminal();
  write(0, "50%\r");
  std::string text;
  run_until([&] { return !(text += shown()).empty(); });
  EXPECT_EQ(text, "[0] 50%\n");
}

TEST_F(TerminalTest, StatusHasALineOfItsOwn) {
  open_terminal({.color = ColorMode::never});
  output_->status({"epoch 3/20", "step\x1b[2J"});
  const std::string line = "\x1b[?7lepoch 3/20 \u00b7 step\\x1b[2J\x1b[?7h\r";
  EXPECT_EQ(shown(), line);
  write(0, "a\n");
  write(1, "b\n");
  EXPECT_EQ(shown(), "\r\x1b[K\x1b[J[0] a\n[1] b\n" + line);
  winsize size{};
  size.ws_col = 20;
  ASSERT_EQ(::ioctl(master_.get(), TIOCSWINSZ, &size), 0);
  output_->redraw_status();
  EXPECT_EQ(shown(), "\r\x1b[K\x1b[J\x1b[?7lepoch 3/20\x1b[?7h\r");
  output_->status({});
  EXPECT_EQ(shown(), "\r\x1b[K\x1b[J");
}

TEST_F(TerminalTest, ProgressStyleFollowsTheTerminalAndTheOption) {
  using enum Output::ProgressStyle;
  const auto style = [this](ProgressMode mode, Output::Descriptors to) {
    open(to, {.progress = mode});
    return output_->progress_style();
  };
  const Output::Descriptors terminal{slave_.get(), slave_.get()};
  Pipe pipe = pipe_with_nonblocking_reader();
  const Output::Descriptors piped{pipe.write.get(), pipe.write.get()};
  const Output::Descriptors read_by_tee{pipe.write.get(), slave_.get()};
  EXPECT_EQ(style(ProgressMode::automatic, terminal), line);
  EXPECT_EQ(style(ProgressMode::automatic, piped), none);
  EXPECT_EQ(style(ProgressMode::automatic, read_by_tee), none);
  EXPECT_EQ(style(ProgressMode::always, read_by_tee), line);
  EXPECT_EQ(style(ProgressMode::always, piped), log);
  EXPECT_EQ(style(ProgressMode::log, terminal), log);
  EXPECT_EQ(style(ProgressMode::never, terminal), none);
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(style(ProgressMode::automatic, terminal), none);
  EXPECT_EQ(style(ProgressMode::always, terminal), line);
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(style(ProgressMode::automatic, terminal), none);
  EXPECT_EQ(style(ProgressMode::always, terminal), log);
}

TEST_F(TerminalTest, StoppedTerminalCongestsWithoutBlocking) {
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
