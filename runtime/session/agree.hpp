// Decisions that all ranks take together; hvd/agree.h says what they mean. Functions that take a
// communicator are collectives; CallOptions::fault says what is wrong with this rank's arguments,
// and is an error on all ranks.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"

#include <span>
#include <string>

#include <hvd/agree.h>

namespace libhvd {

// Replaces the values by their averages over all ranks. Error: a weight is not valid, or all are 0.
Result<void> average_metrics(Communicator& communicator, std::span<double> values, double weight,
                             CallOptions options);

// Adds a value to the state and returns whether it is the best so far. Pure: the rule without the
// other ranks.
bool update_early_stopping(hvd_early_stopping& state, double metric);

// Does that with rank 0's state and metric, and gives the new state to all ranks.
Result<bool> agree_early_stopping(Communicator& communicator, hvd_early_stopping& state,
                                  double metric, CallOptions options);

// What one rank knows about stopping. agree_stop() takes the greatest of each over all ranks, and
// the least of seconds_left.
struct StopSigns {
  int signum = 0;          // the watched signal that this rank received; 0: none
  bool notice = false;     // the launcher asked for it
  bool time = false;       // less time is left than the program needs
  bool requested = false;  // the program asked for it
  double seconds_left = 0;
};

Result<hvd_stop> agree_stop(Communicator& communicator, const StopSigns& own,
                            const CallOptions& options);

// Returns the reasons in words, "signal 15 (SIGTERM)"; "" if there is no reason to stop.
std::string describe_stop(const hvd_stop& stop);

}  // namespace libhvd
