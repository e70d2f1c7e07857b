// Makes the streams between hosts: their connections over TCP, or their tags over MPI.
#pragma once

#include "base/error.hpp"
#include "bootstrap/job_secret.hpp"
#include "bootstrap/mesh.hpp"
#include "transport/mpi_library.hpp"
#include "transport/streams.hpp"

#include <optional>
#include <vector>

namespace libhvd {

// Makes the connections of transport/socket_streams.hpp: for each lane and channel, between the
// ranks of all hosts that serve it. Call it on every rank, after all have opened a listener.
// `ranks`: each rank as a HostEntry whose leader is the rank itself. hosts[r]: the index of rank
// r's host. Error (HVD_ERROR_TIMEOUT): as of connect_mesh().
Result<StreamLanes> join_streams(HostListener host_listener, const std::vector<HostEntry>& ranks,
                                 const std::vector<int>& hosts, int own, const JobSecret& secret,
                                 int lanes, const Deadline& deadline,
                                 std::optional<int>* unreached = nullptr);

// Makes the streams of transport/mpi_streams.hpp for each lane, over an MPI that all ranks have
// joined. hosts[r]: the index of rank r's host. numbers[r]: its rank in MPI. `first_tag`: the same
// on all ranks, and not used yet on any. Does not wait for other ranks. Error: MPI has too few
// tags, or no thread can be started.
Result<StreamLanes> make_mpi_streams(const MpiLibrary& mpi, const std::vector<int>& hosts,
                                     const std::vector<int>& numbers, int own, int lanes,
                                     int first_tag);

}  // namespace libhvd
