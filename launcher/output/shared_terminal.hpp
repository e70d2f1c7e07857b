// The terminal that one rank has (--tty, or the only rank of a job). The rank's bytes go there as
// they are. Whole lines of the others, and the status line, are put between them: at the beginning
// of a line, or in place of an unfinished line, which is then written again below.
//
// Output owns it, on the loop thread. Writes into a byte queue and knows no descriptor. Nothing
// fails. While a program has the full screen, lines wait; of more than kMostWaiting bytes the
// oldest lines are dropped.
#pragma once

#include "output/byte_queue.hpp"
#include "output/screen.hpp"
#include "output/terminal_state.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

class SharedTerminal {
 public:
  static constexpr std::size_t kMostWaiting = 256 * 1024;

  // `columns`: see Screen; null if nothing can be erased there.
  SharedTerminal(ByteQueue& queue, Screen::Columns columns)
      : queue_(queue), columns_(std::move(columns)) {}

  // Lines of the others are appended here, each with its newline.
  ByteQueue& lines() { return lines_; }

  // Shows what the rank has written.
  void write(std::string_view bytes);

  // Shows the whole lines of lines(), as soon as they can be put between.
  void weave();

  // The rank has closed its terminal: takes back what it has left there, and ends its last line.
  void leave();

  // Whether the terminal is in raw mode, where a line ends with "\r\n".
  void set_raw(bool raw) { raw_ = raw; }

  // See Screen. The line is drawn only while the cursor is at the beginning of a line.
  void status(std::vector<std::string> fields);
  void draw_status();
  void erase_status();

  // Returns the bytes that take back what is on the terminal now, if hvdrun is killed.
  std::string undo() const;

 private:
  void show_lines(std::string_view lines);
  void drop_oldest();
  std::string_view line_end() const { return raw_ ? "\r\n" : "\n"; }

  ByteQueue& queue_;
  Screen::Columns columns_;
  ByteQueue lines_;
  TerminalState state_;
  std::size_t dropped_ = 0;  // lines
  bool raw_ = false;
  std::vector<std::string> status_;
  bool status_shown_ = false;
};

}  // namespace hvdrun
