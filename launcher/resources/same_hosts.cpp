#include "resources/same_hosts.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// A host without a number of slots is joined as one that a batch system lists once per slot.
Result<void> add_slots(const Host& again, Host& host) {
  if (host.slots_fixed != again.slots_fixed)
    return fail(fmt::format("{} and {} are names of one host, one with a number of slots and one "
                            "without: name the host once",
                            host.name, again.name),
                kExitUsage);
  const int slots = again.slots_fixed ? again.slots.value_or(1) : 1;
  if (__builtin_add_overflow(host.slots_fixed ? host.slots.value_or(1) : 1, slots,
                             &host.slots.emplace()))
    return fail(fmt::format("the slots of {} are too many to count", host.name), kExitUsage);
  if (!host.slots_fixed) host.slots_source = "named by two names";
  host.slots_fixed = true;
  if (host.max_slots && again.max_slots &&
      __builtin_add_overflow(*host.max_slots, *again.max_slots, &*host.max_slots))
    host.max_slots.reset();
  return {};
}

}  // namespace

Result<std::vector<std::string>> join_same_hosts(
    Allocation& allocation, const std::map<std::string, std::string>& machines) {
  std::vector<std::string> notes;
  std::map<std::string, std::size_t> first;  // by machine: an index in `hosts`
  std::vector<Host> hosts;
  for (auto& host : allocation.hosts) {
    const auto machine = machines.find(host.name);
    const auto known = machine == machines.end() || machine->second.empty()
                           ? std::pair(first.end(), true)
                           : first.emplace(machine->second, hosts.size());
    if (known.second) {
      hosts.push_back(std::move(host));
      continue;
    }
    Host& same = hosts[known.first->second];
    HVD_CHECK(add_slots(host, same));
    notes.push_back(fmt::format("{} and {} are names of one host: it has {}", same.name, host.name,
                                plural(static_cast<std::size_t>(*same.slots), "slot")));
  }
  allocation.hosts = std::move(hosts);
  return notes;
}

}  // namespace hvdrun
