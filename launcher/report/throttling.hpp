// Why GPUs lowered their clocks, in words, and the warning about those that did it against their
// will. Pure functions.
#pragma once

#include "model/report.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

// A reason and in how many per cent of the samples it was seen.
struct ThrottleShare {
  std::string_view reason;  // "power cap", "HW thermal slowdown"
  double percent = 0;
};

// Returns the reasons that were seen, the most frequent first. Several may hold at once.
std::vector<ThrottleShare> throttle_shares(const Throttling& throttling);

// Returns "power cap 40 %, HW thermal slowdown 12 %"; "" if no reason was seen in half a per cent
// of the samples.
std::string describe_throttling(const Throttling& throttling);

// Returns a warning of one line if heat or the host's power supply slowed down a GPU in a tenth of
// its samples or more. It names the GPU where that was most frequent, and the number of the others.
// The power cap is no reason for a warning: under full load GPUs run at it.
std::optional<std::string> throttle_warning(const std::vector<HostGpus>& hosts);

}  // namespace hvdrun
