// The user's terminal, as hvdrun found it: raw mode while a rank has the terminal, and a way back
// at every end, also that of hvdrun by SIGKILL.
//
// The way back is a small process, the keeper: it waits for hvdrun's end. If hvdrun has not put the
// terminal right by itself, the keeper does. The job owns the object, on the loop thread. Error: no
// process can be made.
#pragma once

#include "base/result.hpp"
#include "base/terminal.hpp"

#include <memory>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace hvdrun {

// The keeper's name, as ps shows it. It survives `pkill -9 hvdrun`, like the guard.
inline constexpr char kKeeperProcess[] = "hvd-terminal";

class UserTerminal {
 public:
  // Starts the keeper of the terminal of stdin, if that is one, and of stderr. Call it while the
  // process has one thread.
  static Result<std::unique_ptr<UserTerminal>> open();

  // Puts the terminal right, ends the keeper and waits for it. On the thread that called open().
  ~UserTerminal();
  UserTerminal(const UserTerminal&) = delete;
  UserTerminal& operator=(const UserTerminal&) = delete;

  // Puts stdin's terminal into raw mode. Returns false, and changes nothing, if stdin is no
  // terminal or hvdrun is not in its foreground.
  bool make_raw();
  void restore();

  // Sets the bytes that the keeper writes to the terminal if hvdrun is killed.
  void set_undo(std::string_view bytes);

  // Returns the size of the terminal, and its modes outside of raw mode. Nullopt: see
  // terminal_settings().
  std::optional<TerminalSettings> settings() const;

  // Returns whether stdin was a terminal that is there no more: its window or connection is closed.
  bool has_gone() const;

  pid_t keeper() const { return keeper_; }

 private:
  struct Shared;

  UserTerminal() = default;
  [[noreturn]] void keep();

  pid_t keeper_ = 0;
  Shared* shared_ = nullptr;  // memory of both processes
  bool is_terminal_ = false;
  bool raw_ = false;
  termios original_{};
};

}  // namespace hvdrun
