// Connections between ranks on different hosts: those of the bridges, each host's leader with each
// other's, and those of the data (stream_mesh.hpp). The later host connects to the earlier one;
// both prove the job's secret. With JobSecret::encrypted they are over TLS.
#pragma once

#include "base/result.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/socket.hpp"
#include "transport/bridge.hpp"

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
struct Visit {
  HostEntry peer;
  int number;
};

// Where a host listens until its connections are made: one socket per address, never on all.
class HostDoor {
 public:
  // `interface`: HVD_INTERFACE or "". `known`: see reachable_addresses(). Error: no such interface,
  // or none of the addresses can be listened on.
  static Result<HostDoor> open(const std::string& interface, const std::optional<Address>& known);

  std::vector<Address> addresses() const;

 private:
  friend Result<std::vector<Connection>> make_visits(HostDoor door, const HostEntry& own,
                                                     const std::vector<Visit>& out,
                                                     const std::vector<Visit>& in,
                                                     const JobSecret& secret,
                                                     std::chrono::milliseconds patience);

  std::vector<Fd> listeners_;
};

// When all have opened their door: visits those in `out`, in that order, and lets in those in `in`
// at the same time. Returns the connections, of `out` first. The secret's size is more than all
// numbers. Error (HVD_ERROR_TIMEOUT): which rank did not come or cannot be reached, where, and why.
Result<std::vector<Connection>> make_visits(HostDoor door, const HostEntry& own,
                                            const std::vector<Visit>& out,
                                            const std::vector<Visit>& in, const JobSecret& secret,
                                            std::chrono::milliseconds patience);

// On the leader of each host, with make_visits(). `own`: this host's index.
Result<std::vector<HostSocket>> join_hosts(HostDoor door, const std::vector<HostEntry>& hosts,
                                           int own, const JobSecret& secret,
                                           std::chrono::milliseconds patience);

}  // namespace libhvd
