#include "bootstrap/interfaces.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>
#include <sstream>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace libhvd {
namespace {

struct Interface {
  std::string name;
  Address address;
  int prefix = 0;  // bits of the network
};

std::span<const std::uint8_t> bits_of(const Address& address) {
  if (address.storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
    return {v6.sin6_addr.s6_addr, 16};
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
  return {reinterpret_cast<const std::uint8_t*>(&v4.sin_addr), 4};
}
std::span<const std::uint8_t> bits_of(Address&&) = delete;  // they are inside the address

bool in_network(const Address& address, const Address& network, int prefix) {
  const auto a = bits_of(address);
  const auto b = bits_of(network);
  if (a.size() != b.size()) return false;
  for (int bit = 0; bit < prefix; ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    if (((a[at] ^ b[at]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

Address copy_address(const sockaddr* from) {
  Address address;
  address.length = from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&address.storage, from, address.length);
  return address.with_port(0);
}

int count_bits(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  int count = 0;
  const Address address = copy_address(mask);
  for (std::uint8_t byte : bits_of(address)) {
    for (; byte != 0; byte = static_cast<std::uint8_t>(byte << 1)) ++count;
  }
  return count;
}

// Those that are up. Without link-local IPv6, which means nothing on another host.
Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return fail_errno("cannot list the network interfaces", errno);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface found{entry->ifa_name, copy_address(entry->ifa_addr), count_bits(entry->ifa_netmask)};
    const auto bits = bits_of(found.address);
    const bool link_local = family == AF_INET6 && bits[0] == 0xfe && (bits[1] & 0xc0) == 0x80;
    if (!link_local) interfaces.push_back(std::move(found));
  }
  ::freeifaddrs(list);
  return interfaces;
}

struct Network {
  Address address;
  int prefix;
};

// "10.1.0.0/16", "10.1.0.7", "fd00::/8".
std::optional<Network> read_network(const std::string& text) {
  const auto slash = text.find('/');
  const std::string host = text.substr(0, slash);
  Network network{};
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    network = {copy_address(reinterpret_cast<const sockaddr*>(&v4)), 32};
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    network = {copy_address(reinterpret_cast<const sockaddr*>(&v6)), 128};
  } else {
    return std::nullopt;
  }
  if (slash == std::string::npos) return network;
  int prefix = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, prefix);
  if (error != std::errc() || stop != end || prefix < 0 || prefix > network.prefix) {
    return std::nullopt;
  }
  network.prefix = prefix;
  return network;
}

}  // namespace

Result<std::vector<Address>> interface_addresses(const std::string& wanted) {
  std::vector<Address> addresses;
  if (wanted.empty()) return addresses;
  HVD_TRY(const auto interfaces, list_interfaces());
  std::istringstream names(wanted);
  for (std::string name; std::getline(names, name, ',');) {
    const auto network = read_network(name);
    for (const Interface& entry : interfaces) {
      const bool meant = network ? in_network(entry.address, network->address, network->prefix)
                                 : entry.name == name;
      if (meant) addresses.push_back(entry.address);
    }
  }
  if (addresses.empty()) {
    std::string there;
    for (const Interface& entry : interfaces) {
      there += (there.empty() ? "" : ", ") + entry.name + " (" + entry.address.host() + ")";
    }
    return fail(HVD_ERROR_ENVIRONMENT,
                "HVD_INTERFACE=\"" + wanted +
                    "\" names no network interface of this host that is up and has an address; "
                    "there are " +
                    there);
  }
  return addresses;
}

Result<std::vector<Address>> reachable_addresses(const std::string& wanted,
                                                 const std::optional<Address>& known) {
  if (!wanted.empty()) return interface_addresses(wanted);
  if (known && !known->is_loopback()) return std::vector{known->with_port(0)};
  HVD_TRY(const auto interfaces, list_interfaces());
  std::vector<Address> outside;
  std::vector<Address> loopback;
  for (const Interface& entry : interfaces) {
    (entry.address.is_loopback() ? loopback : outside).push_back(entry.address);
  }
  // Reached through loopback: rank 0 is on this machine, and most likely all are.
  if (known) outside.insert(outside.begin(), known->with_port(0));
  return outside.empty() ? loopback : outside;
}

void sort_by_nearness(std::vector<Address>& addresses) {
  const auto interfaces = list_interfaces();
  if (!interfaces.ok()) return;
  const auto distance = [&](const Address& address) {
    int least = 1;
    for (const Interface& own : *interfaces) {
      if (same_host(own.address, address)) return 2;
      if (in_network(address, own.address, own.prefix)) least = 0;
    }
    return least;
  };
  std::stable_sort(addresses.begin(), addresses.end(),
                   [&](const Address& a, const Address& b) { return distance(a) < distance(b); });
}

}  // namespace libhvd
