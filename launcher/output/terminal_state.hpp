// What a program's bytes have done to a terminal: its unfinished last line, and the modes that it
// has to leave. It knows the control sequences of ECMA-48 and xterm as far as these two need them.
// A plain value; any bytes are accepted.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace hvdrun {

class TerminalState {
 public:
  // A longer line is not kept.
  static constexpr std::size_t kMostLine = 4096;

  void feed(std::string_view bytes);

  // Returns whether the last byte ended a character or a control sequence, so that other text may
  // follow it.
  bool is_between_characters() const { return at_ == At::text && missing_ == 0; }

  // Returns whether the cursor is at the beginning of a line.
  bool is_at_line_start() const { return line_.empty() && is_kept_; }

  bool has_color() const { return has_color_; }

  // Returns whether a program has the whole screen (vim, less).
  bool has_full_screen() const;

  // Returns the unfinished line, if it can be erased and written again on a terminal of that width;
  // otherwise "". It can if it fits into one row, and the cursor has not left the row.
  std::string line_to_repeat(int columns) const;

  // Other text has come below the line: what follows begins a new one.
  void end_line();

  // Returns the bytes that take back the modes that are still on: the full screen, a hidden cursor,
  // colours, reports of the mouse, keys of an application. Empty if there are none.
  std::string undo() const;

 private:
  enum class At { text, escape, charset, sequence, string, string_escape };

  void take(unsigned char byte);
  void end_sequence(char last);

  At at_ = At::text;
  int missing_ = 0;  // bytes of the character that has begun (UTF-8)
  std::string parameters_;
  std::string line_;
  bool is_kept_ = true;  // line_ is the whole line, and the cursor has not left it
  std::set<int> modes_;  // those that are not as a shell expects them
  bool has_keypad_ = false;
  bool has_color_ = false;
};

}  // namespace hvdrun
