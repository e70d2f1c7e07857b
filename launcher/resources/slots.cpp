#include "resources/slots.hpp"

#include "common/text.hpp"
#include "scheduler/scheduler.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

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
  const auto each = static_cast<std::size_t>(*host.share.cpus_per_task);
  set_slots(host, cpus / each,
            fmt::format("{}, {}={}", plural(cpus, "CPU"), host.share.cpus_per_task_source, each));
}

// Returns how many whole processors the host's cgroup may use, at least 1, and at most `all`.
std::size_t within_quota(const HostInventory& inventory, std::size_t all) {
  const auto& quota = inventory.cpu_quota;
  if (!quota || *quota >= static_cast<double>(all)) return all;
  return std::max<std::size_t>(static_cast<std::size_t>(*quota), 1);
}

void set_slots_by_cores(const JobSpec& spec, Host& host) {
  std::size_t cores = host.inventory->cores.size();
  std::string source;
  // A scheduler may give the job fewer CPUs without binding it to them.
  const std::size_t pus = count_pus(*host.inventory);
  const auto given = static_cast<std::size_t>(std::max(host.share.cpus.value_or(0), 0));
  if (given > 0 && given < pus) {
    cores = std::max<std::size_t>(given * cores / pus, 1);
    source = fmt::format(" of {} that {} gives the job", plural(given, "CPU"),
                         host.share.scheduler->name());
  }
  if (const std::size_t allowed = within_quota(*host.inventory, cores); allowed < cores) {
    cores = allowed;
    source = fmt::format(" of the {:.3g} CPUs that the cgroup allows", *host.inventory->cpu_quota);
  }
  if (spec.cpus_per_rank && *spec.cpus_per_rank > 0) {
    const auto each = static_cast<std::size_t>(*spec.cpus_per_rank);
    set_slots(host, cores / each,
              fmt::format("{}{}, {} per rank", plural(cores, "core"), source, each));
  } else if (host.share.cpus_per_task) {
    set_slots_by_cpus(host, within_quota(*host.inventory, given > 0 ? std::min(given, pus) : pus));
  } else {
    set_slots(host, cores, plural(cores, "core") + source);
  }
}

void set_slots_by_tasks(Host& host) {
  const bool gpus_are_known = host.inventory || host.share.gpus;
  set_slots(host, static_cast<std::size_t>(*host.share.tasks),
            host.share.tasks_source + (gpus_are_known ? "" : "; its GPUs are not known yet"));
}

}  // namespace

void settle_slots(const JobSpec& spec, Host& host) {
  if (host.slots_fixed) return;
  const auto& share = host.share;
  if (host.inventory && !host.inventory->gpus.empty()) {
    const std::size_t gpus = host.inventory->gpus.size();
    set_slots(host, gpus, plural(gpus, "GPU"));
  } else if (!host.inventory && share.gpus.value_or(0) > 0) {
    set_slots(host, static_cast<std::size_t>(*share.gpus),
              fmt::format("{}, {}", plural(*share.gpus, "GPU"), share.gpus_source));
  } else if (share.tasks) {
    set_slots_by_tasks(host);
  } else if (host.inventory) {
    set_slots_by_cores(spec, host);
  } else if (share.gpus == 0 && share.cpus && share.cpus_per_task && !spec.cpus_per_rank) {
    set_slots_by_cpus(host, static_cast<std::size_t>(*share.cpus));
  } else {
    host.slots.reset();
    host.slots_source = "not known before it is asked";
  }
}

void take_inventory(const JobSpec& spec, HostInventory inventory, Host& host) {
  host.inventory = std::move(inventory);
  settle_slots(spec, host);
}

}  // namespace hvdrun
