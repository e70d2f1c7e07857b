#include "resources/requested_hosts.hpp"

#include "resources/host_names.hpp"
#include "resources/slots.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// A host with the requests for it so far.
struct NamedHost {
  Host host;
  const HostRequest* first = nullptr;
  int times = 1;
};

NamedHost first_named(const HostRequest& request, const LocalMachine& machine) {
  NamedHost named;
  named.first = &request;
  auto& host = named.host;
  const bool is_here = names_this_machine(request.name, machine.name);
  host.is_this_machine = is_here && (request.user.empty() || request.user == machine.user);
  host.name = is_here ? machine.name : request.name;
  host.address = request.name;
  host.user = request.user;
  host.port = request.port;
  host.max_slots = request.max_slots;
  if (host.is_this_machine) host.inventory = machine.inventory;
  if (request.slots) {
    host.slots = request.slots;
    host.slots_fixed = true;
  }
  return named;
}

// Says that a host has another user or port in one place than in another.
Error differ(const HostRequest& first, const HostRequest& again, std::string_view what) {
  return usage_error(
      fmt::format("{}: {} has {} here than before ({}); write the same in both places",
                  again.source, again.name, what, first.source));
}

Result<void> name_again(const HostRequest& request, NamedHost& named) {
  auto& host = named.host;
  if (request.user != host.user) return differ(*named.first, request, "another user");
  if (request.port != host.port) return differ(*named.first, request, "another port");
  if (request.slots.has_value() != host.slots_fixed)
    return usage_error(
        fmt::format("{}: {} is named with a number of slots in one place and without in "
                    "another ({}); write the slots in both, or the host once",
                    request.source, request.name, named.first->source));
  ++named.times;
  if (request.slots && __builtin_add_overflow(*host.slots, *request.slots, &*host.slots))
    return usage_error(
        fmt::format("{}: the slots of {} are too many to count", request.source, request.name));
  if (host.max_slots && request.max_slots &&
      __builtin_add_overflow(*host.max_slots, *request.max_slots, &*host.max_slots))
    host.max_slots.reset();
  return {};
}

Host finish(const JobSpec& spec, NamedHost named, const std::string& where) {
  auto& host = named.host;
  if (host.slots_fixed) {
    host.slots_source = where;
  } else if (named.times > 1) {
    host.slots = named.times;
    host.slots_fixed = true;
    host.slots_source = fmt::format("{}, named {} times", where, named.times);
  } else {
    settle_slots(spec, host);
  }
  return std::move(host);
}

}  // namespace

Result<std::vector<Host>> requested_hosts(const JobSpec& spec,
                                          const std::vector<HostRequest>& requests,
                                          const std::string& where, const LocalMachine& machine) {
  std::vector<NamedHost> all;
  std::unordered_map<std::string, std::size_t> known;
  for (const auto& request : requests) {
    if (request.slots.value_or(1) < 1)
      return usage_error(fmt::format("{} {}:{}: a host needs 1 slot or more", request.source,
                                     request.name, *request.slots));
    NamedHost named = first_named(request, machine);
    const auto [at, is_new] = known.emplace(lower_case(named.host.name), all.size());
    if (is_new)
      all.push_back(std::move(named));
    else
      HVD_CHECK(name_again(request, all[at->second]));
  }
  std::vector<Host> hosts;
  hosts.reserve(all.size());
  for (auto& named : all) hosts.push_back(finish(spec, std::move(named), where));
  return hosts;
}

}  // namespace hvdrun
