// The form of hvdrun's own lines, which the terminal shows between lines of ranks: "hvdrun: error:
// TEXT". Nothing else decides it. For any thread; a line that cannot be written is lost.
#pragma once

#include "model/job_spec.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

// Returns the line without newline. A text that begins with "error: " or "warning: "
// (base/severity.hpp) keeps that word, a text that begins with a blank continues the line before
// it, and any other gets "note: ".
std::string own_line(std::string_view text, bool is_colored);

// Prints the text as a line of hvdrun's own on stderr, with control characters made visible.
void print_own_line(std::string_view text, ColorMode mode = ColorMode::automatic);

}  // namespace hvdrun
