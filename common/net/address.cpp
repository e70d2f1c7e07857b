#include "common/net/address.hpp"

#include <cstring>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

namespace common {
namespace {

const sockaddr_in& v4(const Address& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& v6(const Address& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

// `get` is getsockname or getpeername.
std::optional<Address> address_of(int socket, int (*get)(int, sockaddr*, socklen_t*)) {
  Address address;
  address.length = sizeof address.storage;
  if (get(socket, address.get(), &address.length) != 0) return std::nullopt;
  const auto family = address.storage.ss_family;
  if (family != AF_INET && family != AF_INET6) return std::nullopt;
  if (family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6(address).sin6_addr)) {
    sockaddr_in plain{};
    plain.sin_family = AF_INET;
    plain.sin_port = v6(address).sin6_port;
    std::memcpy(&plain.sin_addr, v6(address).sin6_addr.s6_addr + 12, sizeof plain.sin_addr);
    std::memcpy(&address.storage, &plain, sizeof plain);
    address.length = sizeof plain;
  }
  return address;
}

}  // namespace

Address Address::with_port(std::uint16_t port) const {
  Address copy = *this;
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&copy.storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&copy.storage)->sin_port = htons(port);
  }
  return copy;
}

std::uint16_t Address::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port);
}

bool Address::is_loopback() const {
  if (storage.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&v6(*this).sin6_addr);
  return (ntohl(v4(*this).sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

std::string Address::host() const {
  char host[NI_MAXHOST];
  if (::getnameinfo(get(), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  return host;
}

std::string Address::text() const {
  return host() + " port " + std::to_string(port());
}

bool same_host(const Address& a, const Address& b) {
  return a.host() == b.host();
}

std::optional<Address> parse_address(const std::string& text, std::uint16_t port) {
  Address address;
  auto* const ip4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* const ip6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &ip4->sin_addr) == 1) {
    ip4->sin_family = AF_INET;
    address.length = sizeof *ip4;
  } else if (::inet_pton(AF_INET6, text.c_str(), &ip6->sin6_addr) == 1) {
    ip6->sin6_family = AF_INET6;
    address.length = sizeof *ip6;
  } else {
    return std::nullopt;
  }
  return address.with_port(port);
}

std::optional<Address> local_address(int socket) {
  return address_of(socket, ::getsockname);
}

std::optional<Address> peer_address(int socket) {
  return address_of(socket, ::getpeername);
}

}  // namespace common
