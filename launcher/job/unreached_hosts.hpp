// What hvdrun prints about hosts on which no agent could be started, or from which nothing is
// heard. Pure functions.
#pragma once

#include "model/job_spec.hpp"

#include <chrono>
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

// Returns how long ranks run on at most, after their agent has last heard of hvdrun.
std::chrono::milliseconds time_of_abandoned_ranks(const JobSpec& spec);

// Returns "ranks may still run on n[3-4], for up to 80 s (…)"; "" if there are no hosts. An agent
// that hears nothing of hvdrun ends its ranks after that time.
std::string abandoned_text(const std::vector<std::string>& hosts, const JobSpec& spec);

}  // namespace hvdrun
