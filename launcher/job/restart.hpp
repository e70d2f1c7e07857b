// Whether a failed job is started again, and on which hosts. Pure functions.
#pragma once

#include "model/placement.hpp"
#include "model/report.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns whether --max-restarts applies to an end of this kind: a failure that the user did not
// ask for.
bool is_worth_a_restart(EndKind kind);

// Returns the kind of end that an agent's failure means, by the exit code that the agent reports.
EndKind kind_of_agent_failure(int exit_code);

// Returns the allocation without lost hosts. This host always stays: hvdrun runs here, so only the
// agent was lost.
Allocation remaining_hosts(Allocation allocation, const std::vector<std::string>& lost);

}  // namespace hvdrun
