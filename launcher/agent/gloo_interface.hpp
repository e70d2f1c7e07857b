// The network interface for gloo on a host whose own name is an address of loopback.
//
// gloo carries PyTorch's collectives on CPUs. A rank listens at the address of its host's name and
// gives that address to the other ranks. Debian's installer writes "127.0.1.1 NAME" into
// /etc/hosts, so that ranks on other hosts would connect to themselves. GLOO_SOCKET_IFNAME names
// another interface.
//
// The agent calls this on its loop's thread, before the ranks start. It cannot fail.
//
// Source: PyTorch, torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, createDefaultDevice.
#pragma once

#include "protocol/messages.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The interfaces with the routes to a job's other hosts, of which it looks up eight at most. The
// names are looked up when the interfaces are needed for the first time. A name server that does
// not answer costs kAnswerPatience.
class InterfacesTowardsHosts {
 public:
  explicit InterfacesTowardsHosts(const LaunchMessage& job) : job_(job) {}
  const std::vector<std::string>& get();

 private:
  const LaunchMessage& job_;
  std::optional<std::vector<std::string>> found_;
};

// Sets GLOO_SOCKET_IFNAME for the ranks to the interface with the route to another host of the job.
// Does nothing if the job has one host, if the ranks have the variable, if this host's name is no
// address of loopback, or if no route is found.
void set_gloo_interface(LaunchMessage& job, InterfacesTowardsHosts& towards_hosts);

// Returns whether the job's own variables have this name.
bool ranks_have(const LaunchMessage& job, std::string_view name);

// Returns whether the text of /etc/hosts has a line with this name and an address of loopback.
bool has_loopback_name(std::string_view hosts_file, std::string_view name);

}  // namespace hvdrun
