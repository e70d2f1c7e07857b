// Times and sizes as the report prints them. Pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace hvdrun {

// Returns "1.23 s", "2 min 5 s", "1 h 2 min".
std::string format_duration(double seconds);

// Returns "45 MB": units are powers of 1000.
std::string format_bytes(std::uint64_t bytes);

}  // namespace hvdrun
