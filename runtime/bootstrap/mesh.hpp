// Makes connections between ranks on different hosts, for the bridges (the leader of each host with
// each other leader) and the streams (stream_mesh.hpp). The later host connects to the earlier one.
// Both prove the job's secret. With JobSecret::encrypted the connections are over TLS.
//
// Everything blocks the calling thread, up to a time limit.
#pragma once

#include "base/error.hpp"
#include "bootstrap/job_secret.hpp"
#include "bootstrap/socket.hpp"
#include "common/fd.hpp"
#include "common/net/connection.hpp"
#include "transport/bridge.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

// A host, and the rank of it that connects.
struct HostEntry {
  int leader = 0;  // a rank
  std::string name;
  std::vector<Address> addresses;  // where the leader listens
  std::optional<int> number = {};  // what messages call the rank, if that is not `leader`
};

// A connection to or from a rank, the leader of `peer`.
struct MeshConnection {
  HostEntry peer;
  int number;  // what the connection is for: more than 0, chosen by the rank that connects
};

// The sockets on which a host listens until its connections are made: one per address, never on all
// addresses of the host.
class HostListener {
 public:
  // Listens on the host's addresses. `interface`: HVD_INTERFACE or "". `known`: see
  // reachable_addresses(). Error: no such interface, or no address can be listened on.
  static Result<HostListener> open(const std::string& interface,
                                   const std::optional<Address>& known);

  std::vector<Address> addresses() const;

 private:
  friend Result<std::vector<Connection>> connect_mesh(
      HostListener host_listener, const HostEntry& own, const std::vector<MeshConnection>& out,
      const std::vector<MeshConnection>& in, const JobSecret& secret, const Deadline& deadline,
      std::optional<int>* unreached);

  std::vector<Fd> listeners_;
};

// Makes connections after all ranks have opened their listeners: connects to those in `out`, in
// that order, and on a second thread accepts those in `in`. So no rank waits for another one's
// turn. Returns the connections, those of `out` first. `secret.size` must be larger than all
// numbers. Error (HVD_ERROR_TIMEOUT): a rank did not connect or cannot be reached; the message says
// which one, where and why, and `unreached` is that rank.
Result<std::vector<Connection>> connect_mesh(HostListener host_listener, const HostEntry& own,
                                             const std::vector<MeshConnection>& out,
                                             const std::vector<MeshConnection>& in,
                                             const JobSecret& secret, const Deadline& deadline,
                                             std::optional<int>* unreached = nullptr);

// Connects the leaders of all hosts with each other, for the bridges. Call it on each leader.
// `own`: this host's index. Error: as of connect_mesh().
Result<std::vector<HostSocket>> join_hosts(HostListener host_listener,
                                           const std::vector<HostEntry>& hosts, int own,
                                           const JobSecret& secret, const Deadline& deadline,
                                           std::optional<int>* unreached = nullptr);

}  // namespace libhvd
