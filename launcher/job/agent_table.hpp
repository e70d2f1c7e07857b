// What hvdrun prints of its agents: a table of them and their links, for --verbose, and which hosts
// lack PMIx. Pure functions.
#pragma once

#include "job/agents.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns a heading and a line for each agent that has greeted. Of many agents only the first are
// in the table, with the number of the others.
std::vector<std::string> agent_table(const Agents& agents);

// Returns a warning with the hosts that lack libpmix; "" if all have it.
std::string missing_pmix_text(const Agents& agents);

}  // namespace hvdrun
