#include "agent/gloo_interface.hpp"

#include "agent/host_facts.hpp"
#include "base/system.hpp"
#include "common/file_content.hpp"
#include "common/interfaces.hpp"
#include "common/net/lookup.hpp"
#include "common/system.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::string_view kVariable = "GLOO_SOCKET_IFNAME";
// This many hosts are looked up at most.
constexpr std::size_t kMostHosts = 8;

// Returns the interface that sends to this address; nullopt if it is loopback or unknown.
std::optional<std::string> interface_towards(
    const common::Address& peer, const std::vector<common::InterfaceAddress>& interfaces) {
  if (peer.is_loopback()) return std::nullopt;
  // Any port: nothing is sent.
  const auto own = common::address_towards(*peer.with_port(9).get(), peer.length);
  if (!own || common::is_loopback(*own)) return std::nullopt;
  for (const auto& entry : interfaces)
    if (std::ranges::equal(common::address_bytes(entry.address), common::address_bytes(*own)) &&
        !common::is_loopback(entry.address))
      return entry.interface;
  return std::nullopt;
}

// Takes the next word off the line.
std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kSpace = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
  const auto word = line.substr(0, line.find_first_of(kSpace));
  line.remove_prefix(word.size());
  return word;
}

}  // namespace

bool ranks_have(const LaunchMessage& job, std::string_view name) {
  return std::ranges::any_of(job.environment, [name](const std::string& variable) {
    return variable.starts_with(name) && variable.substr(name.size()).starts_with("=");
  });
}

const std::vector<std::string>& InterfacesTowardsHosts::get() {
  if (found_) return *found_;
  found_.emplace();
  const auto interfaces = common::interface_addresses();
  if (!interfaces) return *found_;
  std::vector<std::string> hosts;
  for (std::size_t host = 0; host < job_.hosts.size() && hosts.size() < kMostHosts; ++host)
    if (static_cast<int>(host) != job_.host_index) hosts.push_back(job_.hosts[host].address);
  const auto count = hosts.size();
  common::Lookup lookup(std::move(hosts));
  for (std::size_t host = 0; host < count; ++host)
    for (const auto& peer : lookup.next(kAnswerPatience))
      if (auto interface = interface_towards(peer, *interfaces)) {
        if (std::ranges::find(*found_, *interface) == found_->end())
          found_->push_back(std::move(*interface));
        break;
      }
  return *found_;
}

bool has_loopback_name(std::string_view hosts_file, std::string_view name) {
  while (!hosts_file.empty()) {
    auto line = hosts_file.substr(0, hosts_file.find('\n'));
    hosts_file.remove_prefix(std::min(line.size() + 1, hosts_file.size()));
    line = line.substr(0, line.find('#'));
    if (line.find(name) == std::string_view::npos) continue;
    const auto address = common::parse_address(std::string(next_word(line)));
    if (!address || !address->is_loopback()) continue;
    for (auto word = next_word(line); !word.empty(); word = next_word(line))
      if (word == name) return true;
  }
  return false;
}

void set_gloo_interface(LaunchMessage& job, InterfacesTowardsHosts& towards_hosts) {
  if (job.hosts.size() < 2 || ranks_have(job, kVariable)) return;
  if (!has_loopback_name(content_of("/etc/hosts"), local_host_name())) return;
  if (const auto& interfaces = towards_hosts.get(); !interfaces.empty())
    job.environment.push_back(std::string(kVariable) + "=" + interfaces.front());
}

}  // namespace hvdrun
