// What to tell of hosts on which no agent could be started: pure functions.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

struct Unreached {
  std::string host;
  std::string why;  // with HOST for the host's name
};

// One line a trouble, the hosts that have it folded: "n[3-7]: the login was refused (…)". HOST
// becomes the first of them.
std::vector<std::string> unreached_lines(const std::vector<Unreached>& hosts);

// "could not start on n[3-7]"
std::string unreached_reason(const std::vector<Unreached>& hosts);

}  // namespace hvdrun
