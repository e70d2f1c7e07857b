#include "resources/slurm_hosts.hpp"

#include "common/text.hpp"
#include "resources/chosen_devices.hpp"
#include "resources/host_names.hpp"
#include "resources/slots.hpp"
#include "slurm/host_list.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

template <class T>
std::optional<T> value_at(const std::vector<T>& values, std::size_t i) {
  return i < values.size() ? std::optional<T>(values[i]) : std::nullopt;
}

SlurmShare share_of(const JobSpec& spec, const SlurmJob& job, std::size_t i) {
  SlurmShare share;
  share.tasks = value_at(job.tasks, i);
  share.tasks_source = job.tasks_source;
  share.cpus_per_task = job.cpus_per_task;
  share.cpus = value_at(job.cpus, i);
  share.given_gpus = share.gpus = value_at(job.gpus, i);
  share.gpus_source = job.gpus_source;
  if (!share.gpus) return share;
  share.gpus = count_chosen_gpus(spec.remote.devices, *share.given_gpus);
  if (share.gpus != share.given_gpus)
    share.gpus_source += ", of which CUDA_VISIBLE_DEVICES chooses";
  return share;
}

// Returns whether this process sees which GPUs of its machine are the job's.
bool is_confined(const SlurmJob& job, const SlurmShare& share, const Environment& environment) {
  return !job.node_name.empty() || share.gpus.value_or(0) == 0 ||
         find_variable(environment, "CUDA_VISIBLE_DEVICES") != nullptr;
}

// Error: fewer GPUs are visible here than SLURM says, because of --gpus-per-task.
Result<void> check_visible_gpus(const JobSpec& spec, const SlurmJob& job, const Host& host) {
  const int visible = static_cast<int>(host.inventory->gpus.size());
  const int promised = host.slurm.gpus.value_or(0);
  if (visible >= promised || spec.gpu_bind == GpuBind::none) return {};
  if (job.gpus_per_task && !job.step.empty() && visible > 0)
    return fail(
        fmt::format(
            "SLURM job {} has {} on {}, but --gpus-per-task hides all but {} of them from this "
            "step, and NCCL needs ranks that see each other's GPUs; ask for GPUs "
            "by host: #SBATCH --nodes={} --gpus-per-node={} --ntasks-per-node={}",
            job.id, plural(promised, "GPU"), host.name, visible,
            std::max<std::size_t>(job.hosts.size(), 1), promised, promised),
        kExitUsage);
  return {};
}

// If SLURM says nothing about GPUs and this machine has none, assumes that the others have none.
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
                      " applies only to hosts without GPUs; others have one rank per GPU");
  if (job.gpus_per_task)
    reasons.push_back("--gpus-per-task: each rank still sees all GPUs of its host");
}

}  // namespace

Result<Allocation> slurm_hosts(const JobSpec& spec, const SlurmJob& job,
                               const Environment& environment, const LocalMachine& machine) {
  Allocation allocation;
  allocation.from = HostSource::slurm;
  allocation.source = say_source(job);
  allocation.notes = job.notes;
  if (!job.step_note.empty()) allocation.notes.push_back(job.step_note);
  const std::vector<std::string> only_here{machine.name};
  const auto& names = job.hosts.empty() ? only_here : job.hosts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Host host;
    host.name = host.address = names[i];
    host.slurm = share_of(spec, job, i);
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
