#include "resources/scheduled_hosts.hpp"

#include "common/shell_words.hpp"
#include "common/text.hpp"
#include "resources/chosen_devices.hpp"
#include "resources/host_names.hpp"
#include "resources/slots.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns the share as far as the user's choice of GPUs leaves it.
JobShare chosen_of(const JobSpec& spec, JobShare share) {
  if (!share.given_gpus) return share;
  share.gpus = count_chosen_gpus(spec.remote.devices, *share.given_gpus);
  if (share.gpus != share.given_gpus)
    share.gpus_source += ", of which CUDA_VISIBLE_DEVICES chooses";
  return share;
}

// Returns whether this process sees which GPUs of its machine are the job's.
bool is_confined(const ScheduledJob& job, const JobShare& share, const Environment& environment) {
  return !job.this_host.empty() || share.gpus.value_or(0) == 0 ||
         find_variable(environment, "CUDA_VISIBLE_DEVICES") != nullptr;
}

// Error: fewer GPUs are visible here than the job has, because an option hides them.
Result<void> check_visible_gpus(const JobSpec& spec, const Scheduler& scheduler,
                                const ScheduledJob& job, const Host& host) {
  const int visible = static_cast<int>(host.inventory->gpus.size());
  const int promised = host.share.gpus.value_or(0);
  if (visible >= promised || spec.gpu_bind == GpuBind::none) return {};
  if (job.hides_gpus.empty() || visible == 0) return {};
  return usage_error(fmt::format(
      "{} job {} has {} on {}, but {} hides all but {} of them from this step, and NCCL needs "
      "ranks that see each other's GPUs; ask for GPUs by host: {}",
      scheduler.name(), job.id, plural(promised, "GPU"), host.name, job.hides_gpus, visible,
      scheduler.line_for_gpus(promised, std::max<std::size_t>(job.hosts.size(), 1))));
}

// If the scheduler says nothing about GPUs and this machine has none, assumes that the others have
// none.
void assume_no_gpus(Allocation& allocation) {
  const auto here = std::find_if(allocation.hosts.begin(), allocation.hosts.end(),
                                 [](const Host& host) { return host.inventory.has_value(); });
  if (here == allocation.hosts.end() || !here->inventory->gpus.empty()) return;
  const std::string source = "as on " + here->name;
  for (auto& host : allocation.hosts) {
    if (host.share.gpus) continue;
    host.share.gpus = 0;
    host.share.gpus_source = source;
  }
}

// Returns the error for a job whose hosts hvdrun would leave unused.
Error several_hosts_error(const Scheduler& scheduler, const ScheduledJob& job,
                          const std::string& this_machine) {
  constexpr std::size_t kMostNames = 4;
  std::vector<std::string> names;
  for (const auto& host : job.hosts) names.push_back(host.name);
  std::ranges::sort(names);
  std::string hosts = "hosts that its variables do not name";
  if (job.host_count) hosts = plural(*job.host_count, "host");
  if (!names.empty() && names.size() <= kMostNames) {
    std::string list;
    for (const auto& name : names) list += (list.empty() ? "" : ", ") + escape(name);
    hosts += " (" + list + ")";
  }
  return usage_error(fmt::format(
      "this is a job of {}{} with {}, and hvdrun does not start ranks on the other hosts of such a "
      "job by itself: type hvdrun {} … for all of them, by ssh, or hvdrun -H localhost … for {} "
      "alone",
      scheduler.name(), job.id.empty() ? "" : " (" + escape(job.id) + ")", hosts, job.all_hosts,
      this_machine));
}

}  // namespace

Result<Allocation> scheduled_hosts(const JobSpec& spec, const Scheduler& scheduler,
                                   const ScheduledJob& job, const Environment& environment,
                                   const LocalMachine& machine) {
  Allocation allocation;
  allocation.from = HostSource::scheduler;
  allocation.started_by = scheduler.started_by().value_or(StartedBy::ssh);
  allocation.source = job.source;
  allocation.notes = job.notes;
  JobShare unknown;
  unknown.scheduler = &scheduler;
  const std::vector<JobHost> only_here{{machine.name, unknown}};
  for (const auto& given : job.hosts.empty() ? only_here : job.hosts) {
    Host host;
    host.name = host.address = given.name;
    host.share = chosen_of(spec, given.share);
    const bool is_here =
        given.name == job.this_host || names_this_machine(given.name, machine.name);
    if (is_here && is_confined(job, host.share, environment)) {
      host.is_this_machine = true;
      host.name = machine.name;
      host.inventory = machine.inventory;
      HVD_CHECK(check_visible_gpus(spec, scheduler, job, host));
    }
    allocation.hosts.push_back(std::move(host));
  }
  if (job.knows_gpus) assume_no_gpus(allocation);
  for (auto& host : allocation.hosts) settle_slots(spec, host);
  std::ranges::copy(job.reasons, std::back_inserter(allocation.reasons));
  return allocation;
}

Result<Allocation> only_this_host(const JobSpec& spec, const Scheduler& scheduler,
                                  const ScheduledJob& job, const LocalMachine& machine) {
  const bool is_here = std::ranges::all_of(
      job.hosts, [&](const JobHost& host) { return names_this_machine(host.name, machine.name); });
  if (job.host_count != 1 || !is_here) return several_hosts_error(scheduler, job, machine.name);
  Host host;
  host.name = host.address = machine.name;
  host.is_this_machine = true;
  host.inventory = machine.inventory;
  if (!job.hosts.empty()) host.share = job.hosts.front().share;
  settle_slots(spec, host);
  Allocation allocation;
  allocation.source = fmt::format("this machine, in a job of {}", scheduler.name());
  allocation.hosts.push_back(std::move(host));
  return allocation;
}

}  // namespace hvdrun
