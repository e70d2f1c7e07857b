#include "hosts/find_allocation.hpp"

#include "slurm/job_environment.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr const char* kHowToStayHere = "use -H localhost:N to start N ranks on this one";

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower;
}

std::string counted(std::size_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::size_t count_pus(const HostInventory& inventory) {
  std::size_t count = 0;
  for (const auto& core : inventory.cores) count += core.pus.size();
  return count;
}

void set_slots(Host& host, std::size_t slots, std::string source) {
  host.slots = static_cast<int>(std::max<std::size_t>(slots, 1));
  host.slots_source = std::move(source);
}

void set_slots_by_cores(Host& host, const JobSpec& spec, const std::optional<SlurmJob>& slurm) {
  const std::size_t cores = host.inventory.cores.size();
  if (spec.cpus_per_rank && *spec.cpus_per_rank > 0) {
    const auto each = static_cast<std::size_t>(*spec.cpus_per_rank);
    set_slots(host, cores / each, fmt::format("{}, {} a rank", counted(cores, "core"), each));
  } else if (slurm && slurm->cpus_per_task) {
    const auto each = static_cast<std::size_t>(*slurm->cpus_per_task);
    const std::size_t cpus = count_pus(host.inventory);
    set_slots(host, cpus / each,
              fmt::format("{}, SLURM_CPUS_PER_TASK={}", counted(cpus, "CPU"), each));
  } else {
    set_slots(host, cores, counted(cores, "core"));
  }
}

// What the host offers when no number was asked for.
void set_offered_slots(Host& host, const JobSpec& spec, const std::optional<SlurmJob>& slurm) {
  if (!host.inventory.gpus.empty())
    set_slots(host, host.inventory.gpus.size(), counted(host.inventory.gpus.size(), "GPU"));
  else if (slurm && slurm->tasks)
    set_slots(host, static_cast<std::size_t>(*slurm->tasks), "SLURM_NTASKS");
  else
    set_slots_by_cores(host, spec, slurm);
}

Result<Allocation> allocation_from_request(const JobSpec& spec, const LocalMachine& machine) {
  Allocation allocation{"-H", {}};
  Host host{machine.name, 0, "-H", false, machine.inventory};
  for (const auto& request : spec.hosts) {
    if (!names_this_machine(request.name, machine.name))
      return fail(
          fmt::format("-H {}: that is another host than this one ({}), and this version runs "
                      "on one machine; {}",
                      request.name, machine.name, kHowToStayHere),
          kExitUsage);
    if (!request.slots) continue;
    if (*request.slots < 1)
      return fail(
          fmt::format("-H {}:{}: a host needs 1 slot or more", request.name, *request.slots),
          kExitUsage);
    host.slots_fixed = true;
    if (__builtin_add_overflow(host.slots, *request.slots, &host.slots))
      return fail("-H: the slots are too many to count", kExitUsage);
  }
  if (!host.slots_fixed) set_offered_slots(host, spec, std::nullopt);
  allocation.hosts.push_back(std::move(host));
  return allocation;
}

// A SLURM job is ours to use when its only host is this machine.
Result<void> check_slurm_job(const SlurmJob& job, const LocalMachine& machine) {
  if (job.heterogeneous || job.nodes > 1)
    return fail(
        fmt::format("SLURM job {} has {}, and this version runs on one machine; {}", job.id,
                    job.heterogeneous ? "several allocations (it is heterogeneous)"
                                      : counted(static_cast<std::size_t>(job.nodes), "host"),
                    kHowToStayHere),
        kExitUsage);
  if (job.node_list.empty() || job.node_list == job.node_name ||
      names_this_machine(job.node_list, machine.name))
    return {};
  return fail(
      fmt::format("SLURM job {} has the host {}, but hvdrun was started on {} and this version "
                  "does not start ranks elsewhere; start it there (sbatch, or srun --pty "
                  "bash), or {}",
                  job.id, job.node_list, machine.name, kHowToStayHere),
      kExitUsage);
}

Result<void> check_topology(const JobSpec& spec, const LocalMachine& machine) {
  const auto& file = machine.inventory.topology_file;
  if (file.empty() || spec.dry_run || spec.bind_to == BindTo::none) return {};
  return fail(
      fmt::format("HVD_TOPOLOGY={}: a topology file is for studies with --dry-run, since this "
                  "machine's cores are others; unset it, or add --bind-to none",
                  file),
      kExitUsage);
}

bool is_loopback(std::string_view host) {
  const bool is_127 =
      host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || is_127;
}

std::string_view first_label(std::string_view host) {
  return host.substr(0, host.find('.'));
}

}  // namespace

bool names_this_machine(std::string_view host, std::string_view machine_name) {
  const std::string asked = lower_case(host);
  const std::string own = lower_case(machine_name);
  if (is_loopback(asked) || asked == own) return true;
  const bool one_is_short = first_label(asked) == asked || first_label(own) == own;
  return !asked.empty() && one_is_short && first_label(asked) == first_label(own);
}

Result<Allocation> find_allocation(const JobSpec& spec, const Environment& environment,
                                   const LocalMachine& machine) {
  HVD_CHECK(check_topology(spec, machine));
  if (!spec.hosts.empty()) return allocation_from_request(spec, machine);

  HVD_TRY(const auto slurm, slurm_job(environment));
  if (slurm) HVD_CHECK(check_slurm_job(*slurm, machine));
  Host host{machine.name, 0, "", false, machine.inventory};
  set_offered_slots(host, spec, slurm);
  Allocation allocation{slurm ? fmt::format("SLURM job {}", slurm->id) : "this machine", {}};
  allocation.hosts.push_back(std::move(host));
  return allocation;
}

}  // namespace hvdrun
