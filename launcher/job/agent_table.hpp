// The table of agents and their links, for --verbose. A pure function.
#pragma once

#include "job/agents.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns a heading and a line for each agent that has greeted. Of many agents only the first are
// in the table, with the number of the others.
std::vector<std::string> agent_table(const Agents& agents);

}  // namespace hvdrun
