#include "common/interfaces.hpp"

#include "common/fd.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace common {
namespace {

sockaddr_storage copy_address(const sockaddr* from) {
  sockaddr_storage address{};
  if (from->sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, from, sizeof v6);
    v6.sin6_port = 0;
    std::memcpy(&address, &v6, sizeof v6);
  } else {
    sockaddr_in v4;
    std::memcpy(&v4, from, sizeof v4);
    v4.sin_port = 0;
    std::memcpy(&address, &v4, sizeof v4);
  }
  return address;
}

int count_bits(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  int count = 0;
  const sockaddr_storage address = copy_address(mask);
  for (const std::uint8_t byte : address_bytes(address)) count += std::popcount(byte);
  return count;
}

bool is_link_local(const sockaddr_storage& address) {
  const auto bytes = address_bytes(address);
  return address.ss_family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

}  // namespace

std::span<const std::uint8_t> address_bytes(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return {v6.sin6_addr.s6_addr, 16};
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  return {reinterpret_cast<const std::uint8_t*>(&v4.sin_addr), 4};
}

bool is_loopback(const sockaddr_storage& address) {
  const auto bytes = address_bytes(address);
  if (address.ss_family != AF_INET6) return bytes[0] == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

std::optional<sockaddr_storage> address_towards(const sockaddr& peer, socklen_t size) {
  const Fd socket(::socket(peer.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t own_size = sizeof own;
  if (!socket || ::connect(socket.get(), &peer, size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      is_link_local(own))
    return std::nullopt;
  return own;
}

Result<std::vector<InterfaceAddress>, int> interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return errno;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const sockaddr_storage address = copy_address(entry->ifa_addr);
    if (!is_link_local(address))
      addresses.push_back({entry->ifa_name, address, count_bits(entry->ifa_netmask)});
  }
  return addresses;
}

Result<std::vector<std::string>, int> interface_names() {
  const auto all = interface_addresses();
  if (!all) return all.error();
  std::vector<std::string> names;
  for (const auto& entry : *all)
    if (std::ranges::find(names, entry.interface) == names.end()) names.push_back(entry.interface);
  return names;
}

}  // namespace common
