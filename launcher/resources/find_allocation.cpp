#include "resources/find_allocation.hpp"

#include "common/text.hpp"
#include "resources/requested_hosts.hpp"
#include "resources/scheduled_hosts.hpp"
#include "resources/select_hosts.hpp"
#include "resources/slots.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

Result<void> check_topology(const JobSpec& spec, const LocalMachine& machine) {
  const auto& file = machine.inventory.topology_file;
  if (file.empty() || spec.dry_run || spec.bind_to == BindTo::none) return {};
  return fail(
      fmt::format("HVD_TOPOLOGY={}: a topology file is only for --dry-run, since it describes the "
                  "cores of another machine; unset it, or add --bind-to none",
                  file),
      kExitUsage);
}

// The hosts that the user names.
struct Named {
  HostSource from = HostSource::request;
  const std::vector<HostRequest>* requests = nullptr;
  std::string source;  // "-H", "hosts.txt"
  std::string option;  // what to leave out: "-H", "--hostfile hosts.txt"
};

std::optional<Named> named_hosts(const JobSpec& spec, const std::vector<HostRequest>& hostfile) {
  if (!spec.hosts.empty()) return Named{HostSource::request, &spec.hosts, "-H", "-H"};
  if (spec.hostfile.empty()) return std::nullopt;
  const auto file = quote_if_needed(spec.hostfile.string());
  return Named{HostSource::hostfile, &hostfile, file, "--hostfile " + file};
}

Result<Allocation> from_requests(const JobSpec& spec, const Named& named,
                                 const LocalMachine& machine) {
  Allocation allocation;
  HVD_TRY(allocation.hosts, requested_hosts(spec, *named.requests, named.source, machine));
  allocation.from = named.from;
  allocation.source = named.source;
  return allocation;
}

Allocation from_this_machine(const JobSpec& spec, const LocalMachine& machine) {
  Host host;
  host.name = host.address = machine.name;
  host.is_this_machine = true;
  host.inventory = machine.inventory;
  settle_slots(spec, host);
  Allocation allocation;
  allocation.source = "this machine";
  allocation.hosts.push_back(std::move(host));
  return allocation;
}

Result<Allocation> from_scheduler(const JobSpec& spec, const Scheduler& scheduler,
                                  const ScheduledJob& job, const std::optional<Named>& named,
                                  const Environment& environment, const LocalMachine& machine,
                                  const HostQueries& queries) {
  HVD_TRY(auto allocation, scheduled_hosts(spec, scheduler, job, environment, machine));
  if (named)
    HVD_CHECK(choose_hosts(spec, *named->requests, named->option, machine, queries, scheduler,
                           allocation));
  return allocation;
}

Result<Allocation> first_source(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                const Environment& environment, const LocalMachine& machine,
                                const HostQueries& queries, Schedulers all) {
  const auto named = named_hosts(spec, hostfile);
  const auto* const scheduler = scheduler_of(environment, all);
  const bool starts_agents = scheduler != nullptr && scheduler->started_by();
  std::string no_hosts;
  if (scheduler != nullptr && (starts_agents || !named)) {
    HVD_TRY(const auto job, scheduler->read_job(environment, named.has_value(), queries.ask));
    if (!starts_agents) return only_this_host(spec, *scheduler, job, machine);
    if (!named || !job.hosts.empty())
      return from_scheduler(spec, *scheduler, job, named, environment, machine, queries);
    no_hosts = job.no_hosts;
  }
  if (!named) return from_this_machine(spec, machine);
  HVD_TRY(auto allocation, from_requests(spec, *named, machine));
  if (!no_hosts.empty())
    allocation.notes.push_back(
        fmt::format("{}: the hosts of {} are reached by ssh", no_hosts, named->option));
  return allocation;
}

}  // namespace

Result<Allocation> find_allocation(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                   const Environment& environment, const LocalMachine& machine,
                                   const HostQueries& queries, Schedulers all) {
  HVD_CHECK(check_topology(spec, machine));
  HVD_TRY(auto allocation, first_source(spec, hostfile, environment, machine, queries, all));
  HVD_CHECK(select_hosts(spec, allocation));
  return allocation;
}

}  // namespace hvdrun
