#include "base/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

namespace hvdrun {

WindowSize window_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_row, size.ws_col};
}

void set_window_size(int fd, const WindowSize& size) {
  winsize wanted{};
  wanted.ws_row = static_cast<unsigned short>(size.rows);
  wanted.ws_col = static_cast<unsigned short>(size.columns);
  ::ioctl(fd, TIOCSWINSZ, &wanted);
}

std::optional<TerminalSettings> terminal_settings(int fd) {
  TerminalSettings settings;
  if (::tcgetattr(fd, &settings.modes) != 0) return std::nullopt;
  settings.size = window_size(fd);
  return settings;
}

bool is_in_foreground(int fd) {
  const pid_t foreground = ::tcgetpgrp(fd);
  return foreground == -1 || foreground == ::getpgrp();
}

}  // namespace hvdrun
