#include "bootstrap/reachable_addresses.hpp"

#include "common/interfaces.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <netinet/in.h>

namespace libhvd {
namespace {

Address address_of(const sockaddr_storage& storage) {
  const bool is_v6 = storage.ss_family == AF_INET6;
  return {storage, static_cast<socklen_t>(is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in))};
}

// Returns whether both are of one family and equal in the first `prefix` bits.
bool in_network(const Address& address, const Address& network, int prefix) {
  const auto a = address_bytes(address.storage);
  const auto b = address_bytes(network.storage);
  if (a.size() != b.size()) return false;
  for (int bit = 0; bit < prefix; ++bit) {
    const auto at = static_cast<std::size_t>(bit / 8);
    if (((a[at] ^ b[at]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

struct Interface {
  std::string name;
  Address address;
  int prefix = 0;  // bits of the network
};

Result<std::vector<Interface>> list_interfaces() {
  const auto found = common::interface_addresses();
  if (!found) return fail_errno("cannot list the network interfaces", found.error());
  std::vector<Interface> interfaces;
  for (const InterfaceAddress& entry : *found)
    interfaces.push_back({entry.interface, address_of(entry.address), entry.prefix});
  return interfaces;
}

struct Network {
  Address address;
  int prefix;
};

// Reads a network or an address: "10.1.0.0/16", "10.1.0.7", "fd00::/8". Returns nullopt for other
// text.
std::optional<Network> read_network(const std::string& text) {
  const auto slash = text.find('/');
  const std::string host = text.substr(0, slash);
  const auto address = parse_address(host);
  if (!address) return std::nullopt;
  Network network{*address, address->storage.ss_family == AF_INET ? 32 : 128};
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

Result<std::vector<Address>> addresses_named(const std::string& wanted) {
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
  if (!wanted.empty()) return addresses_named(wanted);
  if (known && !known->is_loopback()) return std::vector{known->with_port(0)};
  HVD_TRY(const auto interfaces, list_interfaces());
  std::vector<Address> outside;
  std::vector<Address> loopback;
  for (const Interface& entry : interfaces) {
    (entry.address.is_loopback() ? loopback : outside).push_back(entry.address);
  }
  // `known` is loopback: rank 0 is on this machine, and most likely all ranks are.
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
