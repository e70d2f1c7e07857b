// The time in which a rank of an attempt has the user's terminal: raw mode from the start of all
// ranks to the rank's end, with gaps while the job is paused. Keys go to the rank, and the size of
// the window follows.
//
// The attempt owns it, on the loop thread. Nothing fails. If no rank has the terminal, no function
// does anything.
#pragma once

#include "base/event_loop.hpp"
#include "base/terminal.hpp"
#include "job/terminal_rank.hpp"
#include "model/report.hpp"
#include "output/output.hpp"
#include "output/user_terminal.hpp"
#include "protocol/terminal_messages.hpp"

#include <functional>
#include <optional>
#include <string_view>

namespace hvdrun {

class TerminalSession {
 public:
  using SendWindow = std::function<void(const WindowMessage&)>;

  // `rank`: that has the terminal. `terminal` and `output` must outlive it.
  TerminalSession(std::optional<int> rank, UserTerminal* terminal, Output& output,
                  SendWindow send_window);

  bool is_of(int rank) const { return terminal_ != nullptr && rank_ == rank; }

  // Returns what the rank's terminal is to be like; nullopt if no rank has one.
  std::optional<TerminalSettings> settings() const;

  // All `size` ranks run. Prints how to stop the job, unless the rank is the only one.
  void begin(int size);
  void pause();
  void resume();
  void end();

  // The window may have another size.
  void resize();

  // Looks at the keys on their way to the rank. If they are to stop the job, sends this process
  // SIGINT, as the terminal does outside of raw mode.
  void take_keys(std::string_view keys, EventLoop::Clock::time_point now);

  // Returns whether the rank has ended because of Ctrl-C.
  bool was_interrupted(const RankReport& rank) const;

 private:
  const std::optional<int> rank_;
  UserTerminal* const terminal_;  // null: no rank has it
  Output& output_;
  SendWindow send_window_;
  InterruptKeys interrupts_;
  bool open_ = false;
};

}  // namespace hvdrun
