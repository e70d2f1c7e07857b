// What hvdrun prints about hosts on which no agent could be started, or none ended. Pure functions.
#pragma once

#include "model/report.hpp"

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

// Returns a line for each of the hosts with ranks whose end nobody has seen: "n2 has not confirmed
// that its ranks have ended; there may be left: pid 4711 (rank 1)".
std::vector<std::string> unconfirmed_lines(const std::vector<std::string>& hosts,
                                           const std::vector<RankReport>& ranks);

}  // namespace hvdrun
