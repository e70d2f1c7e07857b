// How long a collective may wait for ranks before hvdrun prints it, as the ranks' environment sets
// it. A pure function.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the time; 0 if hvdrun is not to print anything. `variables`: the job's, "NAME=VALUE".
// Reads HVD_STALL_CHECK_DISABLE and HVD_STALL_CHECK_TIME_SECONDS, or Horovod's if these are unset.
// Treats an invalid value as unset; hvd_init reports it as an error in the ranks.
std::chrono::milliseconds stall_time(const std::vector<std::string>& variables);

}  // namespace hvdrun
