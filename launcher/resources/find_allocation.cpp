#include "resources/find_allocation.hpp"

#include "common/text.hpp"
#include "resources/host_names.hpp"
#include "resources/other_schedulers.hpp"
#include "resources/requested_hosts.hpp"
#include "resources/select_hosts.hpp"
#include "resources/slots.hpp"
#include "resources/slurm_hosts.hpp"
#include "slurm/counts.hpp"
#include "slurm/host_list.hpp"
#include "slurm/job_environment.hpp"

#include <algorithm>
#include <string>
#include <utility>

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

Result<Allocation> from_requests(const JobSpec& spec, const std::vector<HostRequest>& requests,
                                 HostSource from, std::string source,
                                 const Environment& environment, const LocalMachine& machine) {
  Allocation allocation;
  HVD_TRY(allocation.hosts, requested_hosts(spec, requests, source, machine));
  allocation.from = from;
  if (const auto* job = find_variable(environment, "SLURM_JOB_ID"); job != nullptr && !job->empty())
    allocation.reasons.push_back(
        fmt::format("{} overrides the hosts of SLURM job {}", source, quote_if_needed(*job)));
  allocation.source = std::move(source);
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

// Returns this machine with the slots that another scheduler's job has here. Error: the job has
// other hosts, or may have them.
Result<Allocation> from_foreign_job(const JobSpec& spec, const ForeignJob& job,
                                    const LocalMachine& machine) {
  const bool is_here = std::ranges::all_of(job.hosts, [&](const HostRequest& host) {
    return names_this_machine(host.name, machine.name);
  });
  if (job.host_count != 1 || !is_here) return several_hosts_error(job, machine.name);
  auto allocation = from_this_machine(spec, machine);
  auto& host = allocation.hosts.front();
  int slots = 0;
  for (const auto& request : job.hosts) slots += request.slots.value_or(1);
  // A host that is named once, without a number, may have any number of processes.
  if (slots > 1 || (slots == 1 && job.hosts.front().slots)) {
    host.slurm.tasks = slots;
    host.slurm.tasks_source = job.source;
    settle_slots(spec, host);
  }
  allocation.source = fmt::format("this machine, in a job of {}", job.scheduler);
  return allocation;
}

void locate_gpus(SlurmJob& job, const DescribeJob& describe) {
  if (job.gpus_not_located.empty() || job.hosts.empty()) return;
  const auto description = describe(job.id);
  auto by_host = description ? count_gpus_by_host(*description, job.hosts) : description.error();
  if (by_host) {
    job.gpus = std::move(*by_host);
    job.gpus_source = job.gpus_not_located.substr(0, job.gpus_not_located.find('='));
  } else {
    job.notes.push_back(fmt::format(
        "{} does not say how many GPUs each host has, and SLURM does not either ({}); each host "
        "uses what its step is given, which may be fewer",
        job.gpus_not_located, by_host.error().message));
  }
}

Result<Allocation> first_source(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                const Environment& environment, const LocalMachine& machine,
                                const DescribeJob& describe) {
  if (!spec.hosts.empty())
    return from_requests(spec, spec.hosts, HostSource::request, "-H", environment, machine);
  if (!spec.hostfile.empty())
    return from_requests(spec, hostfile, HostSource::hostfile,
                         quote_if_needed(spec.hostfile.string()), environment, machine);
  HVD_TRY(auto job, slurm_job(environment));
  if (job) {
    locate_gpus(*job, describe);
    return slurm_hosts(spec, *job, environment, machine);
  }
  if (const auto foreign = find_foreign_job(environment); foreign)
    return from_foreign_job(spec, *foreign, machine);
  return from_this_machine(spec, machine);
}

}  // namespace

Result<Allocation> find_allocation(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                   const Environment& environment, const LocalMachine& machine,
                                   const DescribeJob& describe) {
  HVD_CHECK(check_topology(spec, machine));
  HVD_TRY(auto allocation, first_source(spec, hostfile, environment, machine, describe));
  HVD_CHECK(select_hosts(spec, allocation));
  return allocation;
}

}  // namespace hvdrun
