// An IP address with a port, as the kernel takes it. Values, for any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/socket.h>

namespace common {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  Address with_port(std::uint16_t port) const;
  std::uint16_t port() const;
  bool is_loopback() const;
  std::string host() const;  // "127.0.0.1"
  std::string text() const;  // "127.0.0.1 port 29501"

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// Returns whether both have the same IP address, whatever the ports.
bool same_host(const Address& a, const Address& b);

// Returns nullopt if the text is no IPv4 or IPv6 address in digits.
std::optional<Address> parse_address(const std::string& text, std::uint16_t port = 0);

// Return the address of this side and of the other side of a socket. A mapped IPv4 address is
// returned as IPv4. Return nullopt if it has none.
std::optional<Address> local_address(int socket);
std::optional<Address> peer_address(int socket);

}  // namespace common
