// The network interfaces of this host. Any thread.
#pragma once

#include "common/result.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/socket.h>

namespace common {

struct InterfaceAddress {
  std::string interface;       // "eth0"
  sockaddr_storage address{};  // AF_INET or AF_INET6, port 0
  int prefix = 0;              // bits of its network's mask
};

// Returns all addresses of the interfaces that are up, in the kernel's order (getifaddrs(3)).
// Leaves out link-local IPv6 addresses (fe80::), because other hosts cannot use them. The error is
// an errno.
Result<std::vector<InterfaceAddress>, int> interface_addresses();

// Returns the names of the interfaces of interface_addresses(), each once.
Result<std::vector<std::string>, int> interface_names();

// Returns this host's address in a connection to the peer, with any port. Sends no packet. Returns
// nullopt if there is no route, or only one for a link-local address.
std::optional<sockaddr_storage> address_towards(const sockaddr& peer, socklen_t size);

// Returns the address's bytes in network order: 4 or 16. They are valid as long as `address`.
std::span<const std::uint8_t> address_bytes(const sockaddr_storage& address);
std::span<const std::uint8_t> address_bytes(sockaddr_storage&&) = delete;

// Returns whether the address is 127.0.0.0/8 or ::1.
bool is_loopback(const sockaddr_storage& address);

}  // namespace common
