// How long a collective may wait for ranks before hvdrun says so: what the ranks' environment says,
// whoever has set it there.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace hvdrun {

// 0: nothing is said. `variables`: the job's, "NAME=VALUE". Reads HVD_STALL_CHECK_DISABLE and
// HVD_STALL_CHECK_TIME_SECONDS, and Horovod's where these are unset. Nonsense counts as unset: it
// is an error of hvd_init in the ranks.
std::chrono::milliseconds stall_time(const std::vector<std::string>& variables);

}  // namespace hvdrun
