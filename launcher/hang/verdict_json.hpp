// A verdict as text for people and as JSON. Pure functions, for any thread.
#pragma once

#include "model/hang_report.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns "hangs", "slow".
std::string_view hang_kind_text(HangKind kind);

// Returns the verdict, what could not be seen, and the stacks.
std::vector<std::string> verdict_lines(const HangReport& report);

// Returns it on one line.
std::string verdict_json(const HangReport& report);

}  // namespace hvdrun
