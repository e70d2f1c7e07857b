#include "common/interfaces.hpp"

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

}  // namespace

std::span<const std::uint8_t> address_bytes(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return {v6.sin6_addr.s6_addr, 16};
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  return {reinterpret_cast<const std::uint8_t*>(&v4.sin_addr), 4};
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
    const auto bytes = address_bytes(address);
    const bool link_local = family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
    if (!link_local)
      addresses.push_back({entry->ifa_name, address, count_bits(entry->ifa_netmask)});
  }
  return addresses;
}

}  // namespace common
