// The two streams of a rank that hvdrun forwards, and the time of what it printed.
#pragma once

#include <chrono>

namespace hvdrun {

enum class Stream : unsigned char { out = 1, err = 2 };

using OutputTime = std::chrono::system_clock::time_point;

}  // namespace hvdrun
