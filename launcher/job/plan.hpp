// Where a job's ranks run, from the first guess to the final placement. Pure functions and a plain
// value.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

struct Plan {
  Allocation allocation;
  // Final when every host in it has reported what it offers. Before that it is a guess, or empty
  // (see place.hpp).
  Placement placement;
  std::optional<int> size;  // the number of ranks, once it is decided; restarts keep it
};

bool is_final(const Placement& placement);

// Returns the hosts whose agents must be asked before the ranks can be placed: those that the guess
// puts ranks or spares on, or all if there is no guess.
std::vector<Host> hosts_to_start(const Plan& plan);

// Returns how many ranks and spares the guess puts on a host; 0 if it is not known.
std::size_t expected_ranks(const Plan& plan, const std::string& host);

// Stores what a host offers.
void take_inventory(const JobSpec& spec, const std::string& host, HostInventory inventory,
                    Plan& plan);

// Places the ranks on the hosts as far as these are known. Keeps the number of ranks if it is
// decided. Error: the ranks do not fit; the message says how much room there is.
Result<void> place_ranks(const JobSpec& spec, Plan& plan);

// As place_ranks(), but only on the hosts that were `asked`, which have agents.
Result<void> place_ranks_on(const JobSpec& spec, const std::set<std::string>& asked, Plan& plan);

// Returns what hvdrun prints about a final plan before the job runs: its notes, or with --verbose
// the table; and with
// --report-bindings the binding of each rank.
std::vector<std::string> plan_lines(const JobSpec& spec, const Plan& plan);

// Gives the ranks that options count from the last one ("last") their numbers. Error (kExitUsage):
// there is no such rank; or the number of ranks is not known before the hosts are asked.
Result<void> settle_named_ranks(JobSpec& spec, const Plan& plan);

// Checks that a job of `size` ranks has the ranks that --only-rank, --stdin and --tty name, and as
// many as --min-np says. Error: kExitUsage.
Result<void> check_named_ranks(const JobSpec& spec, int size);

}  // namespace hvdrun
