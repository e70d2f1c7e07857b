#include "hosts/requested_hosts.hpp"

#include "hosts/host_names.hpp"
#include "hosts/slots.hpp"

#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

tl::unexpected<Error> refuse(std::string message) {
  return fail(std::move(message), kExitUsage);
}

// A host and what was said about it so far.
struct Named {
  Host host;
  const HostRequest* first = nullptr;
  int times = 1;
};

Named first_named(const HostRequest& request, const LocalMachine& machine) {
  Named named;
  named.first = &request;
  auto& host = named.host;
  host.is_this_machine = names_this_machine(request.name, machine.name);
  host.name = host.is_this_machine ? machine.name : request.name;
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

// "n1 has another port in hosts.txt:7 than in hosts.txt:3"
tl::unexpected<Error> differ(const HostRequest& first, const HostRequest& again,
                             std::string_view what) {
  return refuse(fmt::format("{}: {} has {} here than before ({}); write the same in both places",
                            again.source, again.name, what, first.source));
}

Result<void> name_again(const HostRequest& request, Named& named) {
  auto& host = named.host;
  if (request.user != host.user) return differ(*named.first, request, "another user");
  if (request.port != host.port) return differ(*named.first, request, "another port");
  if (request.slots.has_value() != host.slots_fixed)
    return refuse(
        fmt::format("{}: {} is named with a number of slots in one place and without in "
                    "another ({}); write the slots in both, or the host once",
                    request.source, request.name, named.first->source));
  ++named.times;
  if (request.slots && __builtin_add_overflow(*host.slots, *request.slots, &*host.slots))
    return refuse(
        fmt::format("{}: the slots of {} are too many to count", request.source, request.name));
  if (host.max_slots && request.max_slots &&
      __builtin_add_overflow(*host.max_slots, *request.max_slots, &*host.max_slots))
    host.max_slots.reset();
  return {};
}

Host finish(const JobSpec& spec, Named named, const std::string& where) {
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
  std::vector<Named> all;
  std::unordered_map<std::string, std::size_t> known;
  for (const auto& request : requests) {
    if (request.slots.value_or(1) < 1)
      return refuse(fmt::format("{} {}:{}: a host needs 1 slot or more", request.source,
                                request.name, *request.slots));
    Named named = first_named(request, machine);
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
