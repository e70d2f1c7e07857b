// Numbers of a scaling study as people read them. Pure functions.
#pragma once

#include "commands/scale_study.hpp"

#include <ctime>
#include <string>
#include <vector>

namespace hvdrun::scale {

// Returns three significant digits or more, without an exponent where possible: "0.0312", "1.94",
// "13063"; "nan", "inf".
std::string significant(double value);

// Returns "0.213 s".
std::string seconds_text(double seconds);

// Returns a fraction as "97 %".
std::string percent_text(double fraction);

// Returns "1 rank", "4 devices".
std::string size_text(Unit unit, int size);

// Returns "ranks" or "devices".
std::string unit_name(Unit unit);

// Returns "2026-01-31T12:00:00Z" (RFC 3339).
std::string date_text(std::time_t date);

// Returns "n1: 16 cores, 4 × NVIDIA H200". A GPU whose name is not known is called GPU.
std::string hardware_text(const HostHardware& host);

}  // namespace hvdrun::scale
