// What hvdrun prints about hosts on which no agent could be started. Pure functions.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

struct UnreachableHost {
  std::string host;
  std::string why;  // with HOST for the host's name
};

// Returns one line for each cause, with the hosts that have it folded: "n[3-7]: the login was
// refused (…)". HOST in the cause becomes the first of them.
std::vector<std::string> unreached_lines(const std::vector<UnreachableHost>& hosts);

// Returns "could not start on n[3-7]".
std::string unreached_reason(const std::vector<UnreachableHost>& hosts);

}  // namespace hvdrun
