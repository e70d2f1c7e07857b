// A terminal's window size and modes, as a value that launcher and agent exchange. Functions for
// any thread. Nothing returns errors: a descriptor that is no terminal has no settings.
#pragma once

#include <optional>

#include <termios.h>

namespace hvdrun {

struct WindowSize {
  int rows = 0;
  int columns = 0;
};

struct TerminalSettings {
  WindowSize size;
  termios modes{};
};

// Returns 0 × 0 if the size is not known.
WindowSize window_size(int fd);
void set_window_size(int fd, const WindowSize& size);

// Returns nullopt if the descriptor is no terminal, or its terminal has gone.
std::optional<TerminalSettings> terminal_settings(int fd);

// Returns whether the calling process may change the terminal's modes and read from it: it is in
// the foreground there, or the terminal is not that of its session. Otherwise these calls would
// stop the process (SIGTTOU, SIGTTIN).
bool is_in_foreground(int fd);

}  // namespace hvdrun
