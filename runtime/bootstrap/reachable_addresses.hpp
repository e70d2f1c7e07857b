// On which addresses other hosts can reach this host. The functions ask the kernel for the network
// interfaces; any thread.
#pragma once

#include "base/error.hpp"
#include "bootstrap/socket.hpp"

#include <optional>
#include <string>
#include <vector>

namespace libhvd {

// Returns the addresses of this host that HVD_INTERFACE names, with port 0. `wanted` is a list,
// separated by commas, of interfaces ("ib0"), networks ("10.1.0.0/16") and addresses; the result
// has its order. An empty string gives an empty list. Error (HVD_ERROR_ENVIRONMENT): no interface
// matches; the message lists those that exist.
Result<std::vector<Address>> addresses_named(const std::string& wanted);

// Returns the addresses to listen on for other hosts: those that HVD_INTERFACE names; else `known`,
// an address that already has a connection; else those of every interface that is up. Loopback is
// left out unless there is no other. Error: as of addresses_named().
Result<std::vector<Address>> reachable_addresses(const std::string& wanted,
                                                 const std::optional<Address>& known);

// Sorts another host's addresses by how likely they work: first those in a network that this host
// is also in, last those that this host has itself (bridges of container engines have the same
// address on every host).
void sort_by_nearness(std::vector<Address>& addresses);

}  // namespace libhvd
