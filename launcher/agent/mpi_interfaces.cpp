#include "agent/mpi_interfaces.hpp"

#include "common/interfaces.hpp"

#include <set>
#include <system_error>

#include <sys/socket.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExclude = "OMPI_MCA_btl_tcp_if_exclude";
// Open MPI's default, which ours replaces.
constexpr const char* kAlwaysExcluded = "127.0.0.1/8,sppp";

std::set<std::string> virtual_interfaces() {
  std::set<std::string> names;
  if (const auto addresses = common::interface_addresses())
    for (const auto& entry : *addresses)
      if (!common::is_loopback(entry.address) && is_virtual_interface(entry.interface))
        names.insert(entry.interface);
  return names;
}

}  // namespace

bool is_virtual_interface(const std::string& name, const fs::path& folder) {
  std::error_code error;
  const auto own = folder / name;
  if (fs::exists(own / "bridge", error)) return true;
  if (fs::exists(own / "device", error)) return false;
  // A bond or a VLAN has links to the interfaces below it: "lower_eth0".
  for (fs::directory_iterator at(own, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with("lower_")) return false;
  return true;
}

void set_mpi_interfaces(LaunchMessage& job, InterfacesTowardsHosts& towards_hosts) {
  if (job.hosts.size() < 2 || ranks_have(job, kExclude) ||
      ranks_have(job, "OMPI_MCA_btl_tcp_if_include"))
    return;
  auto excluded = virtual_interfaces();
  if (excluded.empty()) return;
  const auto& leading = towards_hosts.get();
  if (leading.empty()) return;
  for (const auto& name : leading) excluded.erase(name);
  if (excluded.empty()) return;
  std::string list = kAlwaysExcluded;
  for (const auto& name : excluded) list += "," + name;
  job.environment.push_back(std::string(kExclude) + "=" + list);
}

}  // namespace hvdrun
