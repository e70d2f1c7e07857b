#include "job/host_addresses.hpp"

#include "channels/local_addresses.hpp"
#include "resources/interface_choice.hpp"
#include "resources/same_hosts.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hvdrun {
namespace {

// Returns the address of this machine that other hosts have seen, if it is one of its own: a link
// through a jump host shows that host's.
std::string own_address(const Agents& agents) {
  const auto own = named_addresses();
  if (!own) return {};
  for (const auto& agent : agents.every())
    if (agent.facts && std::ranges::find(*own, agent.facts->launcher_address,
                                         &NamedAddress::address) != own->end())
      return agent.facts->launcher_address;
  return {};
}

// Returns a host that cannot resolve the name; "" if there is none.
std::string find_unable(const Agents& agents, const std::string& name) {
  for (const auto& agent : agents.every())
    if (!agent.dismissed && agent.facts &&
        std::ranges::find(agent.facts->unresolved, name) != agent.facts->unresolved.end())
      return agent.host.name;
  return {};
}

}  // namespace

const std::string& address_name(const Host& host) {
  return host.is_this_machine ? host.name : host.address;
}

void ask_for_facts(const JobSpec& spec, const std::vector<Host>& hosts, AgentOptions& options) {
  options.reports_facts = hosts.size() > 1 || !spec.remote.network_interface.empty();
  if (hosts.size() < 2) return;
  const bool all =
      spec.frameworks.contains(Framework::tensorflow) || spec.frameworks.contains(Framework::mlx);
  for (const auto& host : hosts)
    if (all || options.names.empty()) options.names.push_back(address_name(host));
}

Result<std::vector<std::string>> join_same_hosts(const Agents& agents, Allocation& allocation) {
  if (allocation.from == HostSource::scheduler) return std::vector<std::string>{};
  std::map<std::string, std::string> machines;
  for (const auto& agent : agents.every())
    if (agent.facts) machines[agent.host.name] = agent.facts->machine;
  return join_same_hosts(allocation, machines);
}

Result<void> find_interfaces(Agents& agents, const std::string& choice) {
  if (choice.empty()) return {};
  for (std::size_t host = 0; host < agents.size(); ++host) {
    auto& agent = agents.on_host(host);
    if (!agent.facts) continue;
    auto chosen = choose_interfaces(choice, agent.facts->interfaces);
    if (!chosen)
      return fail(agent.host.name + " has " + chosen.error().message, chosen.error().exit_code);
    if (agents.size() > 1 && *chosen == std::vector<std::string>{"lo"})
      return fail(fmt::format("--network-interface {}: lo reaches no other host; {} has {}", choice,
                              agent.host.name, fmt::join(agent.facts->interfaces, ", ")),
                  kExitUsage);
    agent.interfaces = std::move(*chosen);
  }
  return {};
}

HostAddresses host_addresses(Agents& agents, const Placement& placement) {
  HostAddresses result;
  if (placement.hosts.size() == 1) return {{"127.0.0.1"}, "127.0.0.1", {}};
  for (std::size_t index = 0; index < agents.size(); ++index) {
    const auto& agent = agents.on_host(index);
    auto& address = result.addresses.emplace_back(address_name(agent.host));
    const auto unable = find_unable(agents, address);
    if (unable.empty() && index > 0) continue;
    auto number = agent.host.is_this_machine ? own_address(agents)
                                             : (agent.facts ? agent.facts->address : std::string());
    if (index == 0) result.first_number = number.empty() ? address : number;
    if (unable.empty()) continue;
    if (!number.empty())
      address = std::move(number);
    else
      result.warnings.push_back(
          fmt::format("{} cannot resolve the name {}, by which its ranks are to reach that host",
                      unable, address));
  }
  return result;
}

}  // namespace hvdrun
