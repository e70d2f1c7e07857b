// Why a try of a job has ended, and whether another follows: pure functions.
#pragma once

#include "model/allocation.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

enum class EndKind {
  well,           // every rank ended with 0
  stopped_early,  // likewise, but they had agreed to stop before the program's end
  rank_failed,    // by itself: a signal, a code, an abort, no finalize
  agent_lost,     // an agent or its guard was killed, its link broke, or it could not go on
  start_timeout,  // --start-timeout
  exit_timeout,   // --exit-timeout: some ranks had ended well
  interrupted,    // a signal to hvdrun: the user
  output_failed,  // nobody reads the output any more, or it cannot be written
  refused,        // what every try would meet again: no such program or folder, another version
};

// Why a try is stopped before its end.
struct StopCause {
  EndKind kind = EndKind::rank_failed;
  std::string reason;            // one line; empty when a rank is to blame
  std::optional<int> exit_code;  // none: that of the rank to blame
};

// Whether --max-restarts is for an end of this kind: a failure, and one that the user did not ask
// for.
bool is_worth_a_restart(EndKind kind);

// What it means that an agent cannot go on, by the exit code that it gives.
EndKind kind_of_agent_failure(int exit_code);

// The allocation without the hosts whose agents were lost. This host stays: hvdrun itself runs
// here, so what was lost was the agent and not the machine.
Allocation remaining_hosts(Allocation allocation, const std::vector<std::string>& lost);

}  // namespace hvdrun
