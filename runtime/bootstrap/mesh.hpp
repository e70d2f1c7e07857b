// Connections between ranks on different hosts: those of the bridges, each host's leader with each
// other's, and those of the data (transport/streams.hpp). The later host connects to the earlier
// one; both prove the job's secret. With JobSecret::encrypted they are over TLS.
#pragma once

#include "base/result.hpp"
#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/socket.hpp"
#include "transport/bridge.hpp"
#include "transport/mpi_library.hpp"
#include "transport/streams.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

struct HostEntry {
  int leader = 0;  // a rank
  std::string name;
  std::vector<Address> addresses;  // where it listens
  std::optional<int> number = {};  // what messages call the rank, when that is not `leader`
};

// A connection to or from a rank, which is the leader of the entry here. Whoever makes it says the
// number, more than 0, by which both know what it is for.
struct MeshConnection {
  HostEntry peer;
  int number;
};

// Where a host listens until its connections are made: one socket per address, never on all.
class HostListener {
 public:
  // `interface`: HVD_INTERFACE or "". `known`: see reachable_addresses(). Error: no such interface,
  // or none of the addresses can be listened on.
  static Result<HostListener> open(const std::string& interface,
                                   const std::optional<Address>& known);

  std::vector<Address> addresses() const;

 private:
  friend Result<std::vector<Connection>> connect_mesh(HostListener host_listener,
                                                      const HostEntry& own,
                                                      const std::vector<MeshConnection>& out,
                                                      const std::vector<MeshConnection>& in,
                                                      const JobSecret& secret,
                                                      std::chrono::milliseconds timeout);

  std::vector<Fd> listeners_;
};

// After all ranks have opened their listener: connects to those in `out`, in that order, and
// accepts those in `in` at the same time. Returns the connections, of `out` first. The secret's
// size is more than all numbers. Error (HVD_ERROR_TIMEOUT): which rank did not come or cannot be
// reached, where, and why.
Result<std::vector<Connection>> connect_mesh(HostListener host_listener, const HostEntry& own,
                                             const std::vector<MeshConnection>& out,
                                             const std::vector<MeshConnection>& in,
                                             const JobSecret& secret,
                                             std::chrono::milliseconds timeout);

// On the leader of each host, with connect_mesh(). `own`: this host's index.
Result<std::vector<HostSocket>> join_hosts(HostListener host_listener,
                                           const std::vector<HostEntry>& hosts, int own,
                                           const JobSecret& secret,
                                           std::chrono::milliseconds timeout);

// Makes the connections of transport/socket_streams.hpp: for each lane and channel, between the
// ranks of all hosts that serve it.

// On every rank, when all have opened a listener. `ranks`: each rank as a HostEntry, the
// leader being the rank itself; hosts[r]: the index of its host. Error (HVD_ERROR_TIMEOUT): as of
// connect_mesh().
Result<StreamLanes> join_streams(HostListener host_listener, const std::vector<HostEntry>& ranks,
                                 const std::vector<int>& hosts, int own, const JobSecret& secret,
                                 int lanes, std::chrono::milliseconds timeout);

// Makes the streams of transport/mpi_streams.hpp, for each lane, over an MPI that all have joined.

// hosts[r]: the index of rank r's host; numbers[r]: its rank in MPI. `first_tag`: the same on all
// ranks, and unused on all. Waits for nobody. Error: there are no more tags, or
// there can be no thread.
Result<StreamLanes> make_mpi_streams(const MpiLibrary& mpi, const std::vector<int>& hosts,
                                     const std::vector<int>& numbers, int own, int lanes,
                                     int first_tag);

}  // namespace libhvd
