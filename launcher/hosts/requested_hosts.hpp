// The hosts that the user names, with -H or in a hostfile: a pure function.
#pragma once

#include "base/result.hpp"
#include "hosts/inventory.hpp"
#include "model/allocation.hpp"
#include "model/host_request.hpp"
#include "model/job_spec.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// The hosts in the order in which they are first named, each once. One that is named several times
// has the sum of its slots, as with Open MPI; without counts, one slot for each time, as batch
// systems write their node files. All names of this machine are one host.
//
// `where` is what they come from, for people: "-H", "hosts.txt". Errors (kExitUsage) name both
// places: a host has slots in one and none in another, another user or another port; the slots are
// too many to count.
Result<std::vector<Host>> requested_hosts(const JobSpec& spec,
                                          const std::vector<HostRequest>& requests,
                                          const std::string& where, const LocalMachine& machine);

}  // namespace hvdrun
