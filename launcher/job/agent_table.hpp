// Who is linked to whom, and by what: for --verbose.
#pragma once

#include "job/agents.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// A line for each agent that has greeted, under a line that says what they show. Of many only the
// first, and how many there are.
std::vector<std::string> agent_table(const Agents& agents);

}  // namespace hvdrun
