#include "agent/pseudo_terminal.hpp"

#include "base/system.hpp"
#include "common/file_content.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>  // NOLINT: posix_openpt
#include <sys/ioctl.h>
#include <unistd.h>

namespace hvdrun {
namespace {

bool ignores(pid_t process, int signal) {
  std::istringstream status(content_of(fmt::format("/proc/{}/status", process)));
  for (std::string word; status >> word;) {
    if (word != "SigIgn:") continue;
    std::uint64_t mask = 0;
    status >> std::hex >> mask;
    return (mask >> (signal - 1) & 1) != 0;
  }
  return false;
}

}  // namespace

Result<PseudoTerminal> open_pseudo_terminal(const TerminalSettings& settings) {
  PseudoTerminal terminal;
  terminal.ours.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.ours || ::unlockpt(terminal.ours.get()) != 0)
    return fail_errno("cannot make a pseudo-terminal", errno);
  terminal.ranks.reset(::ioctl(terminal.ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.ranks) return fail_errno("cannot open a pseudo-terminal", errno);
  ::tcsetattr(terminal.ranks.get(), TCSANOW, &settings.modes);
  set_window_size(terminal.ours.get(), settings.size);
  HVD_CHECK(set_nonblocking(terminal.ours.get()));
  return terminal;
}

std::size_t find_suspend_key(int ours, pid_t rank, std::string_view keys) {
  termios modes{};
  if (::tcgetattr(ours, &modes) != 0 || (modes.c_lflag & ISIG) == 0) return std::string_view::npos;
  const auto key = static_cast<char>(modes.c_cc[VSUSP]);
  if (key == _POSIX_VDISABLE) return std::string_view::npos;
  const auto at = keys.find(key);
  if (at == std::string_view::npos) return at;
  const bool is_for_job = ::tcgetpgrp(ours) == rank && !ignores(rank, SIGTSTP);
  return is_for_job ? at : std::string_view::npos;
}

void ask_to_redraw(int ours) {
  const pid_t foreground = ::tcgetpgrp(ours);
  if (foreground > 1) ::kill(-foreground, SIGWINCH);
}

}  // namespace hvdrun
