// Whether a failed job is started again, and on which hosts. Pure functions and a plain value.
#pragma once

#include "model/placement.hpp"
#include "model/report.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

// Returns whether --max-restarts applies to an end of this kind: a failure that the user did not
// ask for.
bool is_worth_a_restart(EndKind kind);

// Returns the kind of end that an agent's failure means, by the exit code that the agent reports.
EndKind kind_of_agent_failure(int exit_code);

// Hosts that were lost in an attempt.
struct LostHosts {
  std::vector<std::string> silent;  // they do not answer
  // No agent could be started there, or their connection was lost and a new login did not succeed
  // in time. They may be healthy.
  std::vector<std::string> others;
};

// Which of a job's hosts the next attempt uses. This host always stays: hvdrun runs here, so only
// the agent was lost.
class UsableHosts {
 public:
  explicit UsableHosts(Allocation all) : all_(std::move(all)) {}

  // Takes note of an attempt. `used`: its hosts, with what they have reported.
  void attempt_ended(const Allocation& used, const LostHosts& lost);

  Allocation allocation() const;

  // Takes back the hosts that were left out but may be healthy, each once until an attempt has used
  // it without losing it. Returns them. Call it if the ranks do not fit on the others.
  std::vector<std::string> take_back();

 private:
  Allocation all_;
  std::set<std::string> silent_;
  std::set<std::string> left_out_;  // that may be healthy
  std::set<std::string> taken_back_;
};

}  // namespace hvdrun
