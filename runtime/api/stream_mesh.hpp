// Makes the connections of transport/socket_streams.hpp: for each lane and channel, between the
// ranks of all hosts that serve it.
#pragma once

#include "api/host_mesh.hpp"
#include "base/result.hpp"
#include "bootstrap/handshake.hpp"
#include "transport/streams.hpp"

#include <chrono>
#include <vector>

namespace libhvd {

// On every rank, when all have opened a door. `ranks`: each rank as a HostEntry, the leader being
// the rank itself; hosts[r]: the index of its host. Error (HVD_ERROR_TIMEOUT): as of make_visits().
Result<StreamLanes> join_streams(HostDoor door, const std::vector<HostEntry>& ranks,
                                 const std::vector<int>& hosts, int own, const JobSecret& secret,
                                 int lanes, std::chrono::milliseconds patience);

}  // namespace libhvd
