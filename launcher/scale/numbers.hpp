// Numbers as people read them.
#pragma once

#include <string>

namespace hvdrun::scale {

// Three significant digits or more, never with an exponent where it can be done without: "0.0312",
// "1.94", "13063". "nan" and "inf" as they are.
std::string significant(double value);

// "0.213 s".
std::string seconds_text(double seconds);

// "97 %", of a fraction.
std::string percent_text(double fraction);

}  // namespace hvdrun::scale
