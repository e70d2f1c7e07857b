// Which terminals get coloured labels, and the colours. Pure functions.
#pragma once

#include "model/job_spec.hpp"

#include <string_view>

namespace hvdrun {

// The environment's description of the user's terminal. Null: the variable is not set.
struct TerminalEnvironment {
  const char* term = nullptr;       // TERM
  const char* no_color = nullptr;   // NO_COLOR (no-color.org): any value but the empty one
  const char* colorterm = nullptr;  // COLORTERM
  // FORCE_COLOR (force-color.org) or CLICOLOR_FORCE: any value but the empty one and 0.
  bool forces_color = false;

  static TerminalEnvironment of_process();

  // Returns whether it understands escape sequences: "\r\x1b[K" erases a line.
  bool has_escapes() const;
  bool has_256_colors() const;
  // Returns whether NO_COLOR is set.
  bool refuses_color() const;
};

// Returns whether labels and hvdrun's own lines are coloured: with --color always or never as
// asked; with auto not if NO_COLOR is set, otherwise if the environment forces it, and on a
// terminal that can.
bool wants_color(ColorMode mode, bool is_terminal, const TerminalEnvironment& environment);

// Returns the escape sequence that begins the rank's colour. Colours have middle brightness, so
// that they are readable on light and on dark backgrounds. Neighbouring ranks differ clearly.
std::string_view label_color(int rank, bool has_256_colors);

inline constexpr std::string_view kColorEnd = "\x1b[0m";

}  // namespace hvdrun
