// Where a job's ranks are to be, from the first guess to what is started: pure functions.
#pragma once

#include "base/result.hpp"
#include "job/agents.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct Plan {
  Allocation allocation;
  // Final when every host in it has been looked at; until then a guess, or empty (see place.hpp).
  Placement placement;
  std::optional<int> size;  // of the job, once it has been decided; later tries keep it
};

bool is_final(const Placement& placement);

// The hosts that must be asked before the ranks can be placed: those that the guess puts ranks on,
// or without a guess all.
std::vector<Host> hosts_to_start(const Plan& plan);

// How many ranks the guess puts on a host; 0: not known, or none.
std::size_t expected_ranks(const Plan& plan, const std::string& host);

// A host has answered.
void take_inventory(const JobSpec& spec, const std::string& host, HostInventory inventory,
                    Plan& plan);

// Places the ranks on what is known of the hosts, as many as before where their number has been
// decided. Error: they do not fit; says what there is.
Result<void> place_ranks(const JobSpec& spec, Plan& plan);

// What is said about a final plan before the job runs: its notes, or with --verbose the table, and
// with --report-bindings who is bound where.
std::vector<std::string> plan_lines(const JobSpec& spec, const Plan& plan);

// Where the ranks of all hosts find those of a host; that of rank 0 is MASTER_ADDR.
std::string host_address(const Placement& placement, const Host& host);

// The ranks that --only-rank and --stdin name must be in a job of `size` ranks. kExitUsage.
Result<void> check_named_ranks(const JobSpec& spec, int size);

// Who is linked to whom, and by what: for --verbose.

// A line for each agent that has greeted, under a line that says what they show. Of many only the
// first, and how many there are.
std::vector<std::string> agent_table(const Agents& agents);

}  // namespace hvdrun
