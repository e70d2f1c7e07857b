// How long a collective may wait for ranks before hvdrun prints it, and how long ranks may take to
// join each other, as the ranks' environment sets it. Pure functions.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the time; 0 if hvdrun is not to print anything. `variables`: the job's, "NAME=VALUE".
// Reads HVD_STALL_CHECK_DISABLE and HVD_STALL_CHECK_TIME_SECONDS, or Horovod's if these are unset.
// Treats an invalid value as unset; hvd_init reports it as an error in the ranks.
std::chrono::milliseconds stall_time(const std::vector<std::string>& variables);

// Returns the time after which hvdrun says that no rank has joined another one yet; 0: never, as
// when it is not to print anything. Reads HVD_JOIN_TIME_SECONDS too. It is a time of its own,
// because a program imports and reads its data before it joins, which may take longer than a
// collective.
std::chrono::milliseconds join_time(const std::vector<std::string>& variables);

}  // namespace hvdrun
