// What hvdrun prints about hosts on which no agent could be started, from which nothing is heard,
// or on which none ended. Pure functions.
#pragma once

#include "model/job_spec.hpp"
#include "model/report.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

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

struct UnconfirmedHost {
  std::string host;
  pid_t agent = 0;
  bool ranks_ended = false;  // the host has reported that of all its ranks
};

// Returns a line for each of the hosts: "n2 has not confirmed the end of pid 4711 (hvdrun-agent),
// 4715 (rank 1)". Leaves out ranks that have ended.
std::vector<std::string> unconfirmed_lines(const std::vector<UnconfirmedHost>& hosts,
                                           const std::vector<RankReport>& ranks);

// Returns how long ranks run on at most, after their agent has last heard of hvdrun.
std::chrono::milliseconds time_of_abandoned_ranks(const JobSpec& spec);

// Returns "ranks may still run on n[3-4], for up to 80 s (…)"; "" if there are no hosts. An agent
// that hears nothing of hvdrun ends its ranks after that time.
std::string abandoned_text(const std::vector<std::string>& hosts, const JobSpec& spec);

}  // namespace hvdrun
