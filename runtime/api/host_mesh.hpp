// The connections between the bridges of all hosts: each host's leader with each other's. The later
// host connects to the earlier one; both prove the job's secret.
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
};

// Where a host listens until its connections are made: one socket per address, never on all.
class HostDoor {
 public:
  // `interface`: HVD_INTERFACE or "". `known`: see reachable_addresses(). Error: no such interface,
  // or none of the addresses can be listened on.
  static Result<HostDoor> open(const std::string& interface, const std::optional<Address>& known);

  std::vector<Address> addresses() const;

 private:
  friend Result<std::vector<HostSocket>> join_hosts(HostDoor door,
                                                    const std::vector<HostEntry>& hosts, int own,
                                                    const JobSecret& secret,
                                                    std::chrono::milliseconds patience);

  std::vector<Fd> listeners_;
};

// On the leader of each host, when all have opened their door. `own`: this host's index. Error
// (HVD_ERROR_TIMEOUT): which host did not come or cannot be reached, where, and why.
Result<std::vector<HostSocket>> join_hosts(HostDoor door, const std::vector<HostEntry>& hosts,
                                           int own, const JobSecret& secret,
                                           std::chrono::milliseconds patience);

}  // namespace libhvd
