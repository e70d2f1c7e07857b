// What the reports of all agents (HostFacts) mean together: which hosts are one host, on which
// network interfaces the ranks speak, and at which addresses they reach each other's hosts. Plain
// functions on the loop's thread.
#pragma once

#include "base/result.hpp"
#include "job/agents.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns the name of a host for ranks of several hosts.
const std::string& address_name(const Host& host);

// Makes the agents of these hosts report what the functions below need. They resolve the name of
// the first host, where rank 0 and its ports are; or of all hosts, if a framework connects to all.
void ask_for_facts(const JobSpec& spec, const std::vector<Host>& hosts, AgentOptions& options);

// Joins the hosts that are one host, as join_same_hosts() of same_hosts.hpp. In a scheduler's
// allocation each name is a node, though several may be on one machine.
Result<std::vector<std::string>> join_same_hosts(const Agents& agents, Allocation& allocation);

// Sets AgentState::interfaces to what --network-interface chooses on each host of the placement.
// Error (kExitUsage): it chooses none on a host, or only loopback while there are several.
Result<void> find_interfaces(Agents& agents, const std::string& choice);

struct HostAddresses {
  std::vector<std::string> addresses;  // by host index
  // The first one as a number; as it is if that is not known.
  std::string first_number;
  std::vector<std::string>
      warnings;  // of names that a host cannot resolve, without another address
};

// Returns an address for each host of the placement. In place of a name that some host cannot
// resolve: the address by which hvdrun has reached the host. An ssh alias is such a name.
HostAddresses host_addresses(Agents& agents, const Placement& placement);

}  // namespace hvdrun
