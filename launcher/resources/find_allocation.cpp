#include "resources/find_allocation.hpp"

#include "common/text.hpp"
#include "resources/hostfile.hpp"
#include "slurm/counts.hpp"
#include "slurm/host_list.hpp"
#include "slurm/job_environment.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {

namespace {

void set_slots(Host& host, std::size_t slots, std::string source) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<int>::max());
  host.slots = static_cast<int>(std::clamp<std::size_t>(slots, 1, kMost));
  host.slots_source = std::move(source);
}

std::size_t count_pus(const HostInventory& inventory) {
  std::size_t count = 0;
  for (const auto& core : inventory.cores) count += core.pus.size();
  return count;
}

void set_slots_by_cpus(Host& host, std::size_t cpus) {
  const auto each = static_cast<std::size_t>(*host.slurm.cpus_per_task);
  set_slots(host, cpus / each,
            fmt::format("{}, SLURM_CPUS_PER_TASK={}", plural(cpus, "CPU"), each));
}

void set_slots_by_cores(const JobSpec& spec, Host& host) {
  std::size_t cores = host.inventory->cores.size();
  std::string source;
  // SLURM may give the job fewer without binding it to them.
  const std::size_t pus = count_pus(*host.inventory);
  const auto given = static_cast<std::size_t>(std::max(host.slurm.cpus.value_or(0), 0));
  if (given > 0 && given < pus) {
    cores = std::max<std::size_t>(given * cores / pus, 1);
    source = fmt::format(" of {} that SLURM gives the job", plural(given, "CPU"));
  }
  if (spec.cpus_per_rank && *spec.cpus_per_rank > 0) {
    const auto each = static_cast<std::size_t>(*spec.cpus_per_rank);
    set_slots(host, cores / each,
              fmt::format("{}{}, {} a rank", plural(cores, "core"), source, each));
  } else if (host.slurm.cpus_per_task) {
    set_slots_by_cpus(host, given > 0 ? std::min(given, pus) : pus);
  } else {
    set_slots(host, cores, plural(cores, "core") + source);
  }
}

void set_slots_by_tasks(Host& host) {
  const bool gpus_are_known = host.inventory || host.slurm.gpus;
  set_slots(host, static_cast<std::size_t>(*host.slurm.tasks),
            host.slurm.tasks_source + (gpus_are_known ? "" : "; its GPUs are not known yet"));
}

}  // namespace

void settle_slots(const JobSpec& spec, Host& host) {
  if (host.slots_fixed) return;
  const auto& slurm = host.slurm;
  if (host.inventory && !host.inventory->gpus.empty()) {
    const std::size_t gpus = host.inventory->gpus.size();
    set_slots(host, gpus, plural(gpus, "GPU"));
  } else if (!host.inventory && slurm.gpus.value_or(0) > 0) {
    set_slots(host, static_cast<std::size_t>(*slurm.gpus),
              fmt::format("{}, {}", plural(*slurm.gpus, "GPU"), slurm.gpus_source));
  } else if (slurm.tasks) {
    set_slots_by_tasks(host);
  } else if (host.inventory) {
    set_slots_by_cores(spec, host);
  } else if (slurm.gpus == 0 && slurm.cpus && slurm.cpus_per_task && !spec.cpus_per_rank) {
    set_slots_by_cpus(host, static_cast<std::size_t>(*slurm.cpus));
  } else {
    host.slots.reset();
    host.slots_source = "not known before it is asked";
  }
}

void take_inventory(const JobSpec& spec, HostInventory inventory, Host& host) {
  host.inventory = std::move(inventory);
  settle_slots(spec, host);
}

namespace {

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
Error differ(const HostRequest& first, const HostRequest& again, std::string_view what) {
  return usage_error(
      fmt::format("{}: {} has {} here than before ({}); write the same in both places",
                  again.source, again.name, what, first.source));
}

Result<void> name_again(const HostRequest& request, Named& named) {
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
      return usage_error(fmt::format("{} {}:{}: a host needs 1 slot or more", request.source,
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

namespace {

std::string names_of(const std::vector<Host>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const auto& host : hosts) names.push_back(host.name);
  return fold_hosts(names);
}

// Keeps the hosts that the list names, or the others; gives back those that went.
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

namespace {

Result<void> check_topology(const JobSpec& spec, const LocalMachine& machine) {
  const auto& file = machine.inventory.topology_file;
  if (file.empty() || spec.dry_run || spec.bind_to == BindTo::none) return {};
  return fail(
      fmt::format("HVD_TOPOLOGY={}: a topology file is for studies with --dry-run, since this "
                  "machine's cores are others; unset it, or add --bind-to none",
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
        fmt::format("{} counts, and not the hosts of SLURM job {}", source, quote_if_needed(*job)));
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

void locate_gpus(SlurmJob& job, const DescribeJob& describe) {
  if (job.gpus_not_located.empty() || job.hosts.empty()) return;
  const auto description = describe(job.id);
  auto counts = description ? count_gpus_by_host(*description, job.hosts) : description.error();
  if (counts) {
    job.gpus = std::move(*counts);
    job.gpus_source = job.gpus_not_located.substr(0, job.gpus_not_located.find('='));
  } else {
    job.notes.push_back(fmt::format(
        "{} does not say how many GPUs each host has, and SLURM does not either ({}); each host "
        "uses what its step is given, which may be fewer",
        job.gpus_not_located, counts.error().message));
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

namespace {

template <class T>
std::optional<T> value_at(const std::vector<T>& values, std::size_t i) {
  return i < values.size() ? std::optional<T>(values[i]) : std::nullopt;
}

SlurmShare share_of(const SlurmJob& job, std::size_t i) {
  SlurmShare share;
  share.tasks = value_at(job.tasks, i);
  share.tasks_source = job.tasks_source;
  share.cpus_per_task = job.cpus_per_task;
  share.cpus = value_at(job.cpus, i);
  share.gpus = value_at(job.gpus, i);
  share.gpus_source = job.gpus_source;
  return share;
}

// Whether this process sees which GPUs of its machine are the job's.
bool is_confined(const SlurmJob& job, const SlurmShare& share, const Environment& environment) {
  return !job.node_name.empty() || share.gpus.value_or(0) == 0 ||
         find_variable(environment, "CUDA_VISIBLE_DEVICES") != nullptr;
}

// Where the GPUs that are visible here are fewer than SLURM says because of --gpus-per-task.
Result<void> check_visible_gpus(const JobSpec& spec, const SlurmJob& job, const Host& host) {
  const int visible = static_cast<int>(host.inventory->gpus.size());
  const int promised = host.slurm.gpus.value_or(0);
  if (visible >= promised || spec.gpu_bind == GpuBind::none) return {};
  if (job.gpus_per_task && !job.step.empty() && visible > 0)
    return fail(
        fmt::format(
            "SLURM job {} has {} on {}, but --gpus-per-task hides all but {} of them from this "
            "step, and would hide the ranks' GPUs from each other, which NCCL needs; ask for them "
            "by host: #SBATCH --nodes={} --gpus-per-node={} --ntasks-per-node={}",
            job.id, plural(promised, "GPU"), host.name, visible,
            std::max<std::size_t>(job.hosts.size(), 1), promised, promised),
        kExitUsage);
  return {};
}

// Where SLURM says nothing about GPUs and there is none here, there are none on the others.
void assume_no_gpus(Allocation& allocation) {
  const auto here = std::find_if(allocation.hosts.begin(), allocation.hosts.end(),
                                 [](const Host& host) { return host.inventory.has_value(); });
  if (here == allocation.hosts.end() || !here->inventory->gpus.empty()) return;
  const std::string source = "as on " + here->name;
  for (auto& host : allocation.hosts) {
    if (host.slurm.gpus) continue;
    host.slurm.gpus = 0;
    host.slurm.gpus_source = source;
  }
}

std::string say_source(const SlurmJob& job) {
  const auto source = fmt::format("SLURM job {}", job.id);
  return job.step.empty() ? source : fmt::format("step {} of {}", job.step, source);
}

void add_reasons(const SlurmJob& job, Allocation& allocation) {
  auto& reasons = allocation.reasons;
  if (!job.hosts.empty())
    reasons.push_back(fmt::format("{}={} is {}",
                                  job.step.empty() ? "SLURM_JOB_NODELIST" : "SLURM_STEP_NODELIST",
                                  fold_hosts(job.hosts), plural(job.hosts.size(), "host")));
  if (!job.tasks.empty())
    reasons.push_back(job.tasks_source +
                      " counts only on hosts without GPUs; with GPUs there is "
                      "one rank for each");
  if (job.gpus_per_task)
    reasons.push_back("--gpus-per-task: each rank sees all GPUs of its host nevertheless");
}

}  // namespace

Result<Allocation> slurm_hosts(const JobSpec& spec, const SlurmJob& job,
                               const Environment& environment, const LocalMachine& machine) {
  Allocation allocation;
  allocation.from = HostSource::slurm;
  allocation.source = say_source(job);
  allocation.notes = job.notes;
  const std::vector<std::string> only_here{machine.name};
  const auto& names = job.hosts.empty() ? only_here : job.hosts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Host host;
    host.name = host.address = names[i];
    host.slurm = share_of(job, i);
    const bool is_here = names[i] == job.node_name || names_this_machine(names[i], machine.name);
    if (is_here && is_confined(job, host.slurm, environment)) {
      host.is_this_machine = true;
      host.name = machine.name;
      host.inventory = machine.inventory;
      HVD_CHECK(check_visible_gpus(spec, job, host));
    }
    allocation.hosts.push_back(std::move(host));
  }
  if (job.gpus_not_located.empty()) assume_no_gpus(allocation);
  for (auto& host : allocation.hosts) settle_slots(spec, host);
  add_reasons(job, allocation);
  return allocation;
}

}  // namespace hvdrun
