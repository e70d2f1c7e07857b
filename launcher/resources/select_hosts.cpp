#include "resources/select_hosts.hpp"

#include "base/host_list.hpp"
#include "common/text.hpp"
#include "resources/host_names.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

std::string names_of(const std::vector<Host>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const auto& host : hosts) names.push_back(host.name);
  return fold_hosts(names);
}

// Keeps the hosts that the list names (or with keep_named false, the others). Returns the rest.
std::vector<Host> leave_out(std::vector<Host>& hosts, HostNames& names, bool keep_named) {
  std::vector<Host> kept;
  std::vector<Host> gone;
  for (auto& host : hosts)
    (names.contains(host) == keep_named ? kept : gone).push_back(std::move(host));
  hosts = std::move(kept);
  return gone;
}

Result<void> include(const JobSpec& spec, Allocation& allocation) {
  if (spec.include.empty()) return {};
  const std::string there = names_of(allocation.hosts);
  HostNames names(spec.include);
  const auto gone = leave_out(allocation.hosts, names, true);
  if (const auto unknown = names.unused(); !unknown.empty())
    return usage_error(fmt::format("--include {}: not among the hosts of {}, which are {}",
                                   fold_hosts(unknown), allocation.source, there));
  allocation.reasons.push_back(gone.empty() ? "--include: all hosts"
                                            : "--include: all but these are left out: " +
                                                  names_of(allocation.hosts));
  return {};
}

Result<void> exclude(const JobSpec& spec, Allocation& allocation) {
  if (spec.exclude.empty()) return {};
  HostNames names(spec.exclude);
  const auto gone = leave_out(allocation.hosts, names, false);
  if (allocation.hosts.empty())
    return usage_error(fmt::format("--exclude leaves no host of {}: {} {} left out",
                                   allocation.source, names_of(gone),
                                   gone.size() == 1 ? "is" : "are"));
  if (!gone.empty()) allocation.reasons.push_back("--exclude: left out: " + names_of(gone));
  return {};
}

Result<void> limit(const JobSpec& spec, Allocation& allocation) {
  if (!spec.nodes) return {};
  const std::size_t there = allocation.hosts.size();
  const auto wanted = static_cast<std::size_t>(*spec.nodes);
  if (wanted > there)
    return usage_error(fmt::format("--nnodes {}: there {} only {} ({}: {})", *spec.nodes,
                                   there == 1 ? "is" : "are", plural(there, "host"),
                                   allocation.source, names_of(allocation.hosts)));
  allocation.hosts.resize(wanted);
  if (wanted < there)
    allocation.reasons.push_back(fmt::format("--nnodes: the first {} of {} hosts", wanted, there));
  return {};
}

}  // namespace

Result<void> select_hosts(const JobSpec& spec, Allocation& allocation) {
  HVD_CHECK(include(spec, allocation));
  HVD_CHECK(exclude(spec, allocation));
  return limit(spec, allocation);
}

}  // namespace hvdrun
