#include "agent/gloo_interface.hpp"

#include "base/system.hpp"
#include "common/interfaces.hpp"
#include "common/system.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <sstream>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

namespace hvdrun {
namespace {

constexpr std::string_view kVariable = "GLOO_SOCKET_IFNAME";
// This many hosts are looked up at most.
constexpr std::size_t kMostHosts = 8;

bool is_loopback_number(const std::string& text) {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1)
    address.ss_family = AF_INET;
  else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1)
    address.ss_family = AF_INET6;
  else
    return false;
  return common::is_loopback(address);
}

// Returns the interface that sends to this host; nullopt if it is loopback or unknown.
std::optional<std::string> interface_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const char* const any_port = "9";
  if (::getaddrinfo(host.c_str(), any_port, &hints, &list) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  const auto interfaces = common::interface_addresses();
  if (!interfaces) return std::nullopt;
  for (const auto* peer = list; peer != nullptr; peer = peer->ai_next) {
    const auto own = common::address_towards(*peer->ai_addr, peer->ai_addrlen);
    if (!own || common::is_loopback(*own)) continue;
    for (const auto& entry : *interfaces)
      if (std::ranges::equal(common::address_bytes(entry.address), common::address_bytes(*own)) &&
          !common::is_loopback(entry.address))
        return entry.interface;
  }
  return std::nullopt;
}

}  // namespace

bool ranks_have(const LaunchMessage& job, std::string_view name) {
  return std::ranges::any_of(job.environment, [name](const std::string& variable) {
    return variable.starts_with(name) && variable.substr(name.size()).starts_with("=");
  });
}

std::vector<std::string> interfaces_towards_hosts(const LaunchMessage& job) {
  std::vector<std::string> found;
  std::size_t tried = 0;
  for (std::size_t host = 0; host < job.hosts.size() && tried < kMostHosts; ++host) {
    if (static_cast<int>(host) == job.host_index) continue;
    ++tried;
    if (auto interface = interface_towards(job.hosts[host].address))
      if (std::ranges::find(found, *interface) == found.end())
        found.push_back(std::move(*interface));
  }
  return found;
}

bool has_loopback_name(std::string_view hosts_file, std::string_view name) {
  std::istringstream lines{std::string(hosts_file)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string address;
    words >> address;
    if (!is_loopback_number(address)) continue;
    for (std::string word; words >> word;)
      if (word == name) return true;
  }
  return false;
}

void set_gloo_interface(LaunchMessage& job) {
  if (job.hosts.size() < 2 || ranks_have(job, kVariable)) return;
  std::ifstream file("/etc/hosts");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!has_loopback_name(text, local_host_name())) return;
  if (const auto interfaces = interfaces_towards_hosts(job); !interfaces.empty())
    job.environment.push_back(std::string(kVariable) + "=" + interfaces.front());
}

}  // namespace hvdrun
