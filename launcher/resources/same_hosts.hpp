// Hosts that the user has named by two names. A pure function.
#pragma once

#include "base/result.hpp"
#include "model/placement.hpp"

#include <map>
#include <string>
#include <vector>

namespace hvdrun {

// Joins the hosts whose agents report the same HostFacts::machine, under the first name, as two
// requests for one name are joined (requested_hosts.hpp). `machines`: by the host's name. Returns a
// note for each. Error (kExitUsage): one name has a number of slots, and the other has none.
Result<std::vector<std::string>> join_same_hosts(
    Allocation& allocation, const std::map<std::string, std::string>& machines);

}  // namespace hvdrun
