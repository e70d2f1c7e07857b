// The hosts of a scheduler's job that the user names, with -H or in a hostfile: a choice among the
// job's hosts. A function for any thread; it asks the scheduler and the resolver only about a name
// that is none of the scheduler's.
#pragma once

#include "base/result.hpp"
#include "model/host_request.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "resources/inventory.hpp"
#include "scheduler/scheduler.hpp"

#include <functional>
#include <string>
#include <vector>

namespace hvdrun {

// What is asked about hosts. An empty function knows nothing.
struct HostQueries {
  Ask ask;  // the scheduler
  // Returns the addresses of each of these names, in their order.
  std::function<std::vector<std::vector<std::string>>(const std::vector<std::string>& names)>
      addresses;
};

// Leaves in the allocation, which has all hosts of a scheduler's job, those that the requests name,
// in their order. A name may be the scheduler's, short or long, the node's address or host name,
// localhost for this machine, or any name with an address of the host. A number of slots replaces
// the scheduler's.
// `where`: the option that names them, "-H" or "--hostfile FILE".
//
// Errors (kExitUsage): a host is not among the job's; another user is to run there; more slots than
// the scheduler gave without --oversubscribe; and those of requested_hosts().
Result<void> choose_hosts(const JobSpec& spec, std::vector<HostRequest> requests,
                          const std::string& where, const LocalMachine& machine,
                          const HostQueries& queries, const Scheduler& scheduler,
                          Allocation& allocation);

}  // namespace hvdrun
