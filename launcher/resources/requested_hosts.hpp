// The hosts that the user names, with -H or in a hostfile. A pure function, for any thread.
#pragma once

#include "base/result.hpp"
#include "model/host_request.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "resources/inventory.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns the hosts in the order in which they are first named, each once. A host that is named
// several times has the sum of its slots, as with Open MPI. Without numbers of slots it has one for
// each time, as batch systems write their node files. All names of this machine are one host.
//
// `where` says where the requests come from, for people: "-H", "hosts.txt". Errors (kExitUsage)
// name both places: a host has slots in one and none in another, another user or another port; or
// its slots exceed the range of int.
Result<std::vector<Host>> requested_hosts(const JobSpec& spec,
                                          const std::vector<HostRequest>& requests,
                                          const std::string& where, const LocalMachine& machine);

}  // namespace hvdrun
