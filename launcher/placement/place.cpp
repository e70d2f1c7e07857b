#include "placement/place.hpp"

#include "placement/bind_cores.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using Counts = std::vector<int>;  // ranks by host

std::string counted(std::int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

tl::unexpected<Error> refuse(std::string message) {
  return fail(std::move(message), kExitUsage);
}

// --- how many ranks on which host
// -----------------------------------------------------------------

bool gpus_count(const JobSpec& spec, const Host& host) {
  return spec.gpu_bind != GpuBind::none && !host.inventory.gpus.empty();
}

// The most ranks that the host may have.
int limit_of(const JobSpec& spec, const Host& host) {
  int limit = kMaxRanksPerHost;
  if (spec.oversubscribe) return limit;
  if (host.slots_fixed) limit = std::min(limit, host.slots);
  if (gpus_count(spec, host)) limit = std::min(limit, static_cast<int>(host.inventory.gpus.size()));
  return limit;
}

std::int64_t sum_of_limits(const JobSpec& spec, const Allocation& allocation) {
  std::int64_t sum = 0;
  for (const auto& host : allocation.hosts) sum += limit_of(spec, host);
  return sum;
}

// "n1 has 4 GPUs (NVML)", for what limits the host.
std::string say_limit(const JobSpec& spec, const Host& host) {
  const auto gpus = static_cast<std::int64_t>(host.inventory.gpus.size());
  if (gpus_count(spec, host) && limit_of(spec, host) == gpus)
    return fmt::format("{} has {} ({})", host.name, counted(gpus, "GPU"),
                       host.inventory.gpu_source);
  return fmt::format("{} has {} ({})", host.name, counted(host.slots, "slot"), host.slots_source);
}

std::string say_limits(const JobSpec& spec, const Allocation& allocation) {
  constexpr std::size_t kMostHosts = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostHosts, allocation.hosts.size()); ++i)
    text += (i == 0 ? "" : ", ") + say_limit(spec, allocation.hosts[i]);
  if (allocation.hosts.size() > kMostHosts)
    text += fmt::format(
        " and {} more",
        counted(static_cast<std::int64_t>(allocation.hosts.size() - kMostHosts), "host"));
  return text;
}

// Too many ranks for what limits the hosts: says what limits, and what to type.
tl::unexpected<Error> too_many(const JobSpec& spec, const Allocation& allocation,
                               std::int64_t ranks) {
  const std::int64_t most = sum_of_limits(spec, allocation);
  const bool by_gpus =
      std::any_of(allocation.hosts.begin(), allocation.hosts.end(), [&](const Host& host) {
        return gpus_count(spec, host) &&
               limit_of(spec, host) == static_cast<int>(host.inventory.gpus.size());
      });
  if (!by_gpus)
    return refuse(fmt::format("{} for {}: {}; use -np {}, more slots in -H, or --oversubscribe",
                              counted(ranks, "rank"), counted(most, "slot"),
                              say_limits(spec, allocation), most));
  return refuse(fmt::format(
      "{} for {}: {}; use -np {} for one rank per GPU, --oversubscribe to let "
      "ranks share GPUs, or --gpu-bind none when the program uses none",
      counted(ranks, "rank"), counted(most, "GPU"), say_limits(spec, allocation), most));
}

Result<void> check_numbers(const JobSpec& spec, const Allocation& allocation) {
  if (allocation.hosts.empty()) return refuse("there is no host to start ranks on");
  if (spec.ranks && *spec.ranks < 1)
    return refuse(fmt::format("-np {}: a job has 1 rank or more", *spec.ranks));
  if (spec.ranks_per_host && *spec.ranks_per_host < 1)
    return refuse(fmt::format("--ranks-per-host {}: must be 1 or more", *spec.ranks_per_host));
  if (spec.cpus_per_rank && *spec.cpus_per_rank < 1)
    return refuse(fmt::format("--cpus-per-rank {}: must be 1 or more", *spec.cpus_per_rank));

  const auto hosts = static_cast<std::int64_t>(allocation.hosts.size());
  if (spec.ranks && *spec.ranks > hosts * kMaxRanksPerHost)
    return refuse(fmt::format(
        "-np {}: hvdrun starts at most {} ranks on a host, and there {} {}; is "
        "the number right?",
        *spec.ranks, kMaxRanksPerHost, hosts == 1 ? "is" : "are", counted(hosts, "host")));
  if (spec.ranks_per_host && *spec.ranks_per_host > kMaxRanksPerHost)
    return refuse(fmt::format("--ranks-per-host {}: hvdrun starts at most {} ranks on a host",
                              *spec.ranks_per_host, kMaxRanksPerHost));
  for (const auto& host : allocation.hosts)
    if (!spec.ranks && !spec.ranks_per_host && host.slots > kMaxRanksPerHost)
      return refuse(
          fmt::format("{} has {} slots ({}), and hvdrun starts at most {} ranks on a host",
                      host.name, host.slots, host.slots_source, kMaxRanksPerHost));
  return {};
}

Result<Counts> counts_per_host(const JobSpec& spec, const Allocation& allocation) {
  const auto hosts = static_cast<std::int64_t>(allocation.hosts.size());
  const std::int64_t each = *spec.ranks_per_host;
  const std::int64_t ranks = spec.ranks ? *spec.ranks : each * hosts;
  if (ranks > each * hosts)
    return refuse(fmt::format("-np {} does not fit: --ranks-per-host {} on {} makes {}", ranks,
                              each, counted(hosts, "host"), each * hosts));
  Counts counts;
  std::int64_t left = ranks;
  for (const auto& host : allocation.hosts) {
    counts.push_back(static_cast<int>(std::min(each, left)));
    left -= counts.back();
    if (counts.back() > limit_of(spec, host)) return too_many(spec, allocation, ranks);
  }
  return counts;
}

// Hands `left` ranks round, one at a time, to the hosts below their limit. The caller has made sure
// that they fit.
void spread_rest(const JobSpec& spec, const Allocation& allocation, std::int64_t left,
                 Counts& counts) {
  while (left > 0) {
    for (std::size_t i = 0; i < counts.size() && left > 0; ++i) {
      if (counts[i] >= limit_of(spec, allocation.hosts[i])) continue;
      ++counts[i];
      --left;
    }
  }
}

Result<Counts> counts_by_slots(const JobSpec& spec, const Allocation& allocation) {
  std::int64_t slots = 0;
  for (const auto& host : allocation.hosts) slots += host.slots;
  const std::int64_t ranks = spec.ranks ? *spec.ranks : slots;
  if (ranks > sum_of_limits(spec, allocation)) return too_many(spec, allocation, ranks);
  Counts counts;
  std::int64_t left = ranks;
  for (const auto& host : allocation.hosts) {
    const std::int64_t most = std::min(host.slots, limit_of(spec, host));
    counts.push_back(static_cast<int>(std::min(most, left)));
    left -= counts.back();
  }
  spread_rest(spec, allocation, left, counts);
  return counts;
}

// --- one host ------------------------------------------------------------------------------------

std::string name_gpu(const Gpu& gpu, int index) {
  if (!gpu.name.empty()) return fmt::format("GPU {} ({}, {})", index, gpu.name, gpu.pci_address);
  if (gpu.visible != std::to_string(index)) return fmt::format("GPU {} ({})", index, gpu.visible);
  return fmt::format("GPU {}", index);
}

bool has_mig(const HostInventory& inventory) {
  return std::any_of(inventory.gpus.begin(), inventory.gpus.end(),
                     [](const Gpu& gpu) { return gpu.visible.starts_with("MIG-"); });
}

std::string list_visible(const HostInventory& inventory) {
  std::string list;
  for (const auto& gpu : inventory.gpus) list += (list.empty() ? "" : ",") + gpu.visible;
  return list;
}

void give_gpus(const JobSpec& spec, const Host& host, HostPlacement& placed) {
  if (!gpus_count(spec, host)) return;
  const auto& gpus = host.inventory.gpus;
  const bool single = spec.gpu_bind == GpuBind::single || has_mig(host.inventory);
  const std::string list = host.inventory.gpus_need_list ? list_visible(host.inventory) : "";
  for (auto& rank : placed.ranks) {
    const int index = rank.local_rank % static_cast<int>(gpus.size());
    const Gpu& gpu = gpus[static_cast<std::size_t>(index)];
    rank.gpu = index;
    rank.device = single ? 0 : index;
    if (single)
      rank.visible_devices = gpu.visible;
    else if (!list.empty())
      rank.visible_devices = list;
    rank.device_name = name_gpu(gpu, index);
  }
}

std::vector<std::optional<int>> nodes_of_gpus(const Host& host, const HostPlacement& placed) {
  std::vector<std::optional<int>> near;
  near.reserve(placed.ranks.size());
  for (const auto& rank : placed.ranks)
    near.push_back(rank.gpu ? host.inventory.gpus[static_cast<std::size_t>(*rank.gpu)].numa_node
                            : std::nullopt);
  return near;
}

std::size_t count_nodes(const HostInventory& inventory) {
  std::set<int> nodes;
  for (const auto& core : inventory.cores) nodes.insert(core.numa_node);
  return nodes.size();
}

void bind_to_cores(const HostInventory& inventory, const std::vector<int>& cores, std::size_t nodes,
                   RankPlacement& rank) {
  std::set<int> own_nodes;
  for (const int position : cores) {
    const Core& core = inventory.cores[static_cast<std::size_t>(position)];
    rank.cpus.insert(rank.cpus.end(), core.pus.begin(), core.pus.end());
    own_nodes.insert(core.numa_node);
  }
  std::sort(rank.cpus.begin(), rank.cpus.end());
  if (own_nodes.size() < nodes) rank.numa_nodes.assign(own_nodes.begin(), own_nodes.end());
}

Result<void> give_cores(const JobSpec& spec, const Host& host, HostPlacement& placed,
                        std::vector<std::string>& notes) {
  HVD_TRY(const CoreBinding binding,
          bind_cores(host, nodes_of_gpus(host, placed), spec.bind_to, spec.cpus_per_rank));
  const std::size_t nodes = count_nodes(host.inventory);
  for (std::size_t i = 0; i < placed.ranks.size(); ++i)
    if (!binding.cores[i].empty())
      bind_to_cores(host.inventory, binding.cores[i], nodes, placed.ranks[i]);
  notes.insert(notes.end(), binding.notes.begin(), binding.notes.end());
  return {};
}

void add_notes(const JobSpec& spec, const Host& host, std::size_t ranks,
               std::vector<std::string>& notes) {
  const auto& inventory = host.inventory;
  for (const auto& note : inventory.notes) notes.push_back(fmt::format("{}: {}", host.name, note));
  if (gpus_count(spec, host) && ranks > inventory.gpus.size())
    notes.push_back(fmt::format("{} ranks on {} share {}", ranks, host.name,
                                counted(static_cast<std::int64_t>(inventory.gpus.size()), "GPU")));
  const std::size_t cores = inventory.cores.size();
  if (ranks > cores && cores > 0)
    notes.push_back(fmt::format("{} ranks on {} share {}", ranks, host.name,
                                counted(static_cast<std::int64_t>(cores), "core")));
  else if (!gpus_count(spec, host) && !spec.cpus_per_rank &&
           ranks > static_cast<std::size_t>(host.slots))
    notes.push_back(fmt::format("{} ranks on {} for its {} ({})", ranks, host.name,
                                counted(host.slots, "slot"), host.slots_source));
  if (gpus_count(spec, host) && has_mig(inventory))
    notes.push_back(fmt::format(
        "{}: CUDA shows a process one MIG device, so each rank sees only its own", host.name));
}

Result<HostPlacement> place_on_host(const JobSpec& spec, const Host& host, int first_rank,
                                    int count, std::vector<std::string>& notes) {
  HostPlacement placed{host.name, {}};
  placed.ranks.resize(static_cast<std::size_t>(count));
  for (int local = 0; local < count; ++local) {
    auto& rank = placed.ranks[static_cast<std::size_t>(local)];
    rank.rank = first_rank + local;
    rank.local_rank = local;
  }
  add_notes(spec, host, placed.ranks.size(), notes);
  give_gpus(spec, host, placed);
  HVD_CHECK(give_cores(spec, host, placed, notes));
  return placed;
}

// --- all hosts -----------------------------------------------------------------------------------

void number_across_hosts(Placement& placement) {
  std::vector<int> seen;  // by local rank: how many hosts have it
  for (auto& host : placement.hosts) {
    seen.resize(std::max(seen.size(), host.ranks.size()), 0);
    for (std::size_t local = 0; local < host.ranks.size(); ++local)
      host.ranks[local].cross_rank = seen[local]++;
  }
  for (auto& host : placement.hosts)
    for (std::size_t local = 0; local < host.ranks.size(); ++local)
      host.ranks[local].cross_size = seen[local];
}

}  // namespace

Result<Placement> place(const JobSpec& spec, const Allocation& allocation) {
  HVD_CHECK(check_numbers(spec, allocation));
  HVD_TRY(const Counts counts, spec.ranks_per_host ? counts_per_host(spec, allocation)
                                                   : counts_by_slots(spec, allocation));
  Placement placement;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) {
      placement.notes.push_back(fmt::format("{} gets no rank", allocation.hosts[i].name));
      continue;
    }
    HVD_TRY(HostPlacement host,
            place_on_host(spec, allocation.hosts[i], placement.size, counts[i], placement.notes));
    placement.hosts.push_back(std::move(host));
    placement.size += counts[i];
  }
  number_across_hosts(placement);
  return placement;
}

}  // namespace hvdrun
