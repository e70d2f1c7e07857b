// The networks of this host: on which addresses other hosts can reach it.
#pragma once

#include "base/result.hpp"
#include "bootstrap/socket.hpp"

#include <optional>
#include <string>
#include <vector>

namespace libhvd {

// The addresses of this host that HVD_INTERFACE names, port 0: those of an interface ("ib0"), or
// those in a network ("10.1.0.0/16", or one address), or of a list of them with commas, in its
// order. "" names none. Error (HVD_ERROR_ENVIRONMENT): there is none, with what there is.
Result<std::vector<Address>> addresses_named(const std::string& wanted);

// Where to listen for other hosts: what HVD_INTERFACE names; else `known`, an address that has
// carried a connection; else every interface that is up, without loopback unless there is no other.
Result<std::vector<Address>> reachable_addresses(const std::string& wanted,
                                                 const std::optional<Address>& known);

// The order in which to try a host's addresses: first those in a network that this host is in too;
// last those that are this host's own (as the bridges of container engines are, on every host).
void sort_by_nearness(std::vector<Address>& addresses);

}  // namespace libhvd
