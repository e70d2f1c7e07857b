// The network interfaces that Open MPI may use between hosts.
//
// Open MPI connects to all addresses of the other host. Where each host has a bridge of its own
// with the same address (docker0, virbr0), its ranks connect to their own host and wait for ever.
// So interfaces of software that do not lead to the job's hosts are excluded. Those of hardware
// stay, because Open MPI sends over several.
//
// The agent calls this on its loop's thread, before the ranks start. Host names are resolved, which
// may take time, but only where there is such an interface. It cannot fail.
//
// Source: Open MPI 4.1, opal/mca/btl/tcp: btl_tcp_if_exclude and its default.
#pragma once

#include "agent/gloo_interface.hpp"
#include "protocol/messages.hpp"

#include <filesystem>
#include <string>

namespace hvdrun {

// Sets OMPI_MCA_btl_tcp_if_exclude for the ranks of a job on several hosts. Does nothing if the
// ranks have it or OMPI_MCA_btl_tcp_if_include, if there is nothing to exclude, or if it is not
// known which interface leads to the other hosts.
void set_mpi_interfaces(LaunchMessage& job, InterfacesTowardsHosts& towards_hosts);

// Returns whether the interface is software's own: a bridge, or one without hardware below it.
// `folder` has the kernel's folder of each interface.
bool is_virtual_interface(const std::string& name,
                          const std::filesystem::path& folder = "/sys/class/net");

}  // namespace hvdrun
