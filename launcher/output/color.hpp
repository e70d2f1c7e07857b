// Which terminals get coloured labels and redrawn progress bars, and the colours.
#pragma once

#include "model/job_spec.hpp"

#include <string_view>

namespace hvdrun {

// What the environment says about the user's terminal. Null: the variable is not set.
struct TerminalEnvironment {
  const char* term = nullptr;       // TERM
  const char* no_color = nullptr;   // NO_COLOR (no-color.org): any value but the empty one
  const char* colorterm = nullptr;  // COLORTERM

  static TerminalEnvironment of_process();

  // It understands escape sequences: "\r\x1b[K" erases a line.
  bool has_escapes() const;
  bool has_256_colors() const;
};

// --color: always and never are obeyed; automatic asks for a terminal that can, and no NO_COLOR.
bool wants_color(ColorMode mode, bool is_terminal, const TerminalEnvironment& environment);

// The escape sequence that begins rank's colour. Of middle brightness, to be read on light and on
// dark backgrounds; neighbours in rank differ clearly.
std::string_view label_color(int rank, bool has_256_colors);

inline constexpr std::string_view kColorEnd = "\x1b[0m";

}  // namespace hvdrun
