// Numbers of a scaling study as people read them. Pure functions.
#pragma once

#include <string>

namespace hvdrun::scale {

// Returns three significant digits or more, without an exponent where possible: "0.0312", "1.94",
// "13063"; "nan", "inf".
std::string significant(double value);

// Returns "0.213 s".
std::string seconds_text(double seconds);

// Returns a fraction as "97 %".
std::string percent_text(double fraction);

}  // namespace hvdrun::scale
