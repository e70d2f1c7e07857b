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

Result<Allocation> from_slurm(const JobSpec& spec, SlurmJob job, const std::optional<Named>& named,
                              const Environment& environment, const LocalMachine& machine,
                              const HostQueries& queries) {
  if (!named) return slurm_hosts(spec, job, environment, machine);
  use_whole_job(job);
  HVD_TRY(auto allocation, slurm_hosts(spec, job, environment, machine));
  HVD_CHECK(choose_hosts(spec, *named->requests, named->option, machine, queries, allocation));
  return allocation;
}

Result<Allocation> first_source(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                const Environment& environment, const LocalMachine& machine,
                                const DescribeJob& describe, const HostQueries& queries) {
  const auto named = named_hosts(spec, hostfile);
  HVD_TRY(auto job, slurm_job(environment));
  if (job && (!named || !job->hosts.empty())) {
    locate_gpus(*job, describe);
    return from_slurm(spec, std::move(*job), named, environment, machine, queries);
  }
  if (const auto foreign = named ? std::nullopt : find_foreign_job(environment); foreign)
    return from_foreign_job(spec, *foreign, machine);
  if (!named) return from_this_machine(spec, machine);
  HVD_TRY(auto allocation, from_requests(spec, *named, machine));
  if (job)
    allocation.notes.push_back(
        fmt::format("SLURM_JOB_ID={} is set, but not SLURM_JOB_NODELIST: the hosts of {} are "
                    "reached by ssh",
                    job->id, named->option));
  return allocation;
}

}  // namespace

Result<Allocation> find_allocation(const JobSpec& spec, const std::vector<HostRequest>& hostfile,
                                   const Environment& environment, const LocalMachine& machine,
                                   const DescribeJob& describe, const HostQueries& queries) {
  HVD_CHECK(check_topology(spec, machine));
  HVD_TRY(auto allocation, first_source(spec, hostfile, environment, machine, describe, queries));
  HVD_CHECK(select_hosts(spec, allocation));
  return allocation;
}

}  // namespace hvdrun
