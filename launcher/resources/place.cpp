#include "resources/place.hpp"

#include "common/text.hpp"
#include "resources/bind_cores.hpp"
#include "resources/placement_text.hpp"
#include "slurm/host_list.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

namespace {

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

// Before anybody has looked, a GPU is no more than its number.
void give_expected_gpus(const JobSpec& spec, int gpus, HostPlacement& placed) {
  for (auto& rank : placed.ranks) {
    const int index = rank.local_rank % gpus;
    rank.gpu = index;
    rank.device = spec.gpu_bind == GpuBind::single ? 0 : index;
    rank.device_name = fmt::format("GPU {}", index);
  }
}

void give_gpus(const JobSpec& spec, const HostInventory& inventory, HostPlacement& placed) {
  const auto& gpus = inventory.gpus;
  const bool single = spec.gpu_bind == GpuBind::single || has_mig(inventory);
  const std::string list = inventory.gpus_need_list ? list_visible(inventory) : "";
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

std::vector<std::optional<int>> nodes_of_gpus(const HostInventory& inventory,
                                              const HostPlacement& placed) {
  std::vector<std::optional<int>> near;
  near.reserve(placed.ranks.size());
  for (const auto& rank : placed.ranks)
    near.push_back(rank.gpu ? inventory.gpus[static_cast<std::size_t>(*rank.gpu)].numa_node
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
                        HostNotes& notes) {
  const HostInventory& inventory = *host.inventory;
  HVD_TRY(const CoreBinding binding,
          bind_cores(inventory, host.name, nodes_of_gpus(inventory, placed), spec.bind_to,
                     spec.cpus_per_rank));
  const std::size_t nodes = count_nodes(inventory);
  for (std::size_t i = 0; i < placed.ranks.size(); ++i)
    if (!binding.cores[i].empty())
      bind_to_cores(inventory, binding.cores[i], nodes, placed.ranks[i]);
  for (const auto& note : binding.notes) notes.add(host.name, "", ": " + note);
  return {};
}

void add_sharing_notes(const JobSpec& spec, const Host& host, std::size_t ranks, HostNotes& notes) {
  const auto on = fmt::format("{} on ", plural(ranks, "rank"));
  const auto gpus = static_cast<std::size_t>(count_gpus(host));
  if (gpus_count(spec, host) && ranks > gpus)
    notes.add(host.name, on, " share " + plural(gpus, "GPU"));
  const std::size_t cores = host.inventory ? host.inventory->cores.size() : 0;
  if (ranks > cores && cores > 0)
    notes.add(host.name, on, " share " + plural(cores, "core"));
  else if (!gpus_count(spec, host) && !spec.cpus_per_rank && host.slots &&
           ranks > static_cast<std::size_t>(*host.slots))
    notes.add(host.name, on,
              fmt::format(" for its {} ({})", plural(*host.slots, "slot"), host.slots_source));
}

void add_notes(const JobSpec& spec, const Host& host, std::size_t ranks, HostNotes& notes) {
  if (host.inventory)
    for (const auto& note : host.inventory->notes) notes.add(host.name, "", ": " + note);
  add_slurm_notes(spec, host, ranks, notes);
  add_sharing_notes(spec, host, ranks, notes);
  if (host.inventory && host.inventory->gpus.empty() && spec.gpu_bind == GpuBind::single)
    notes.add_plural(host.name, " has no GPU to bind a rank to (--gpu-bind single)",
                     " have no GPU to bind a rank to (--gpu-bind single)");
  if (host.inventory && gpus_count(spec, host) && has_mig(*host.inventory))
    notes.add(host.name, "",
              ": CUDA shows a process one MIG device, so each rank sees only its own");
}

Result<HostPlacement> place_on_host(const JobSpec& spec, const Host& host, int count,
                                    HostNotes& notes) {
  HostPlacement placed;
  placed.host = host.name;
  placed.is_provisional = !host.inventory;
  placed.ranks.resize(static_cast<std::size_t>(count));
  for (int local = 0; local < count; ++local)
    placed.ranks[static_cast<std::size_t>(local)].local_rank = local;
  add_notes(spec, host, placed.ranks.size(), notes);
  if (!host.inventory) {
    if (gpus_count(spec, host)) give_expected_gpus(spec, count_gpus(host), placed);
    return placed;
  }
  if (gpus_count(spec, host)) give_gpus(spec, *host.inventory, placed);
  HVD_CHECK(give_cores(spec, host, placed, notes));
  return placed;
}

// --- all hosts -----------------------------------------------------------------------------------

void number_by_slot(Placement& placement) {
  int next = 0;
  for (auto& host : placement.hosts)
    for (auto& rank : host.ranks) rank.rank = next++;
}

// The first rank of each host, then the second of each that has one, and so on.
void number_by_node(Placement& placement) {
  std::vector<HostPlacement*> open;
  for (auto& host : placement.hosts) open.push_back(&host);
  int next = 0;
  for (std::size_t local = 0; !open.empty(); ++local) {
    for (auto* host : open) host->ranks[local].rank = next++;
    std::erase_if(open, [&](const auto* host) { return host->ranks.size() == local + 1; });
  }
}

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

std::string say_to_ask(const std::vector<std::string>& hosts) {
  return fmt::format(
      "how many slots {} {} is not known before {} asked; --ranks-per-host, or a "
      "number behind each host ({}:4), would decide it now",
      fold_hosts(hosts), hosts.size() == 1 ? "has" : "have",
      hosts.size() == 1 ? "it is" : "they are", hosts.front());
}

void add_missing_gpus(const JobSpec& spec, const Host& host, HostNotes& notes) {
  if (!host.inventory || spec.gpu_bind == GpuBind::none) return;
  const std::size_t visible = host.inventory->gpus.size();
  const int promised = host.slurm.gpus.value_or(0);
  if (visible >= static_cast<std::size_t>(promised)) return;
  notes.add(host.name, "SLURM says that ",
            fmt::format(" has {} ({}), but {} visible there", plural(promised, "GPU"),
                        host.slurm.gpus_source,
                        visible == 0   ? "none is"
                        : visible == 1 ? "1 is"
                                       : fmt::format("{} are", visible)));
}

using Counts = std::vector<int>;  // by host

// --- limits --------------------------------------------------------------------------------------

// The most ranks that the host may have.
int limit_of(const JobSpec& spec, const Host& host) {
  if (spec.oversubscribe)
    return std::min(kMaxRanksPerHost, host.max_slots.value_or(kMaxRanksPerHost));
  int limit = kMaxRanksPerHost;
  if (host.slots_fixed) limit = std::min(limit, *host.slots);
  if (gpus_count(spec, host)) limit = std::min(limit, count_gpus(host));
  return limit;
}

Counts limits_of(const JobSpec& spec, const Allocation& allocation) {
  Counts limits;
  for (const auto& host : allocation.hosts) limits.push_back(limit_of(spec, host));
  return limits;
}

std::int64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// "n1 has 4 GPUs (NVML)", for what limits the host.
std::string say_limit(const JobSpec& spec, const Host& host) {
  const int limit = limit_of(spec, host);
  if (spec.oversubscribe) return fmt::format("{} takes {}", host.name, plural(limit, "rank"));
  if (gpus_count(spec, host) && limit == count_gpus(host))
    return fmt::format("{} has {} ({})", host.name, plural(limit, "GPU"),
                       host.inventory ? host.inventory->gpu_source : host.slurm.gpus_source);
  return fmt::format("{} has {} ({})", host.name, plural(host.slots.value_or(0), "slot"),
                     host.slots_source);
}

std::string say_limits(const JobSpec& spec, const Allocation& allocation) {
  constexpr std::size_t kMostHosts = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostHosts, allocation.hosts.size()); ++i)
    text += (i == 0 ? "" : ", ") + say_limit(spec, allocation.hosts[i]);
  if (allocation.hosts.size() > kMostHosts)
    text += fmt::format(" and {} more", plural(allocation.hosts.size() - kMostHosts, "host"));
  return text;
}

// Too many ranks for what limits the hosts: says what limits, and what to type.
Error too_many(const JobSpec& spec, const Allocation& allocation, std::int64_t ranks) {
  const std::int64_t most = sum(limits_of(spec, allocation));
  const auto limits = say_limits(spec, allocation);
  const bool by_gpus =
      std::any_of(allocation.hosts.begin(), allocation.hosts.end(), [&](const Host& host) {
        return gpus_count(spec, host) && limit_of(spec, host) == count_gpus(host);
      });
  if (spec.oversubscribe)
    return usage_error(fmt::format("{} where {} may be at most (max_slots): {}; use -np {}",
                                   plural(ranks, "rank"), most, limits, most));
  if (!by_gpus)
    return usage_error(
        fmt::format("{} for {}: {}; use -np {}, more slots in -H, or --oversubscribe",
                    plural(ranks, "rank"), plural(most, "slot"), limits, most));
  return usage_error(
      fmt::format("{} for {}: {}; use -np {} for one rank per GPU, --oversubscribe to let "
                  "ranks share GPUs, or --gpu-bind none when the program uses none",
                  plural(ranks, "rank"), plural(most, "GPU"), limits, most));
}

// --- checks --------------------------------------------------------------------------------------

Result<void> check_at_least_one(const JobSpec& spec) {
  if (spec.ranks && *spec.ranks < 1)
    return usage_error(fmt::format("-np {}: a job has 1 rank or more", *spec.ranks));
  if (spec.ranks_per_host && *spec.ranks_per_host < 1)
    return usage_error(fmt::format("--ranks-per-host {}: must be 1 or more", *spec.ranks_per_host));
  if (spec.cpus_per_rank && *spec.cpus_per_rank < 1)
    return usage_error(fmt::format("--cpus-per-rank {}: must be 1 or more", *spec.cpus_per_rank));
  return {};
}

Result<void> check_numbers(const JobSpec& spec, const Allocation& allocation) {
  if (allocation.hosts.empty()) return usage_error("there is no host to start ranks on");
  HVD_CHECK(check_at_least_one(spec));
  const auto hosts = static_cast<std::int64_t>(allocation.hosts.size());
  if (spec.ranks && *spec.ranks > hosts * kMaxRanksPerHost)
    return usage_error(fmt::format(
        "-np {}: hvdrun starts at most {} ranks on a host, and there {} {}; is "
        "the number right?",
        *spec.ranks, kMaxRanksPerHost, hosts == 1 ? "is" : "are", plural(hosts, "host")));
  if (spec.ranks_per_host && *spec.ranks_per_host > kMaxRanksPerHost)
    return usage_error(fmt::format("--ranks-per-host {}: hvdrun starts at most {} ranks on a host",
                                   *spec.ranks_per_host, kMaxRanksPerHost));
  if (spec.nodes && spec.ranks && *spec.ranks < hosts)
    return usage_error(
        fmt::format("--nnodes {}: {} cannot be on {}; use -np {} or more, or fewer hosts",
                    *spec.nodes, plural(*spec.ranks, "rank"), plural(hosts, "host"), hosts));
  for (const auto& host : allocation.hosts)
    if (!spec.ranks && !spec.ranks_per_host && host.slots.value_or(0) > kMaxRanksPerHost)
      return usage_error(
          fmt::format("{} has {} slots ({}), and hvdrun starts at most {} ranks on a host",
                      host.name, *host.slots, host.slots_source, kMaxRanksPerHost));
  return {};
}

Result<void> check_total(std::int64_t ranks) {
  if (ranks <= kMaxRanks) return {};
  return usage_error(
      fmt::format("these are {} ranks, and hvdrun starts at most {}; use -np N", ranks, kMaxRanks));
}

// --- handing out ---------------------------------------------------------------------------------

bool is_dealt(const JobSpec& spec) {
  return spec.map_by == MapBy::node || spec.nodes;
}

// Fills the hosts in order, to `most` each. Gives back what is left.
std::int64_t fill(const Counts& most, std::int64_t left, Counts& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto more = std::clamp<std::int64_t>(most[i] - counts[i], 0, left);
    counts[i] += static_cast<int>(more);
    left -= more;
  }
  return left;
}

// Hands ranks round, one at a time, to the hosts below `most`, as if it were done so: whole rounds
// are taken together. Gives back what is left.
std::int64_t deal(const Counts& most, std::int64_t left, Counts& counts) {
  while (left > 0) {
    std::int64_t open = 0;
    std::int64_t rounds = left;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] >= most[i]) continue;
      ++open;
      rounds = std::min<std::int64_t>(rounds, most[i] - counts[i]);
    }
    if (open == 0) return left;
    rounds = std::min(rounds, left / open);
    const bool is_last_round = rounds == 0;
    for (std::size_t i = 0; i < counts.size() && left > 0; ++i) {
      if (counts[i] >= most[i]) continue;
      const auto more = is_last_round ? 1 : rounds;
      counts[i] += static_cast<int>(more);
      left -= more;
    }
  }
  return 0;
}

Result<Counts> counts_per_host(const JobSpec& spec, const Allocation& allocation) {
  const auto hosts = static_cast<std::int64_t>(allocation.hosts.size());
  const std::int64_t each = *spec.ranks_per_host;
  const std::int64_t ranks = spec.ranks ? *spec.ranks : each * hosts;
  if (ranks > each * hosts)
    return usage_error(fmt::format("-np {} does not fit: --ranks-per-host {} on {} makes {}", ranks,
                                   each, plural(hosts, "host"), each * hosts));
  HVD_CHECK(check_total(ranks));
  const Counts most(allocation.hosts.size(), *spec.ranks_per_host);
  Counts counts(most.size(), 0);
  is_dealt(spec) ? deal(most, ranks, counts) : fill(most, ranks, counts);
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > limit_of(spec, allocation.hosts[i])) return too_many(spec, allocation, ranks);
  return counts;
}

Result<Counts> counts_by_slots(const JobSpec& spec, const Allocation& allocation) {
  std::int64_t slots = 0;
  for (const auto& host : allocation.hosts) slots += host.slots.value_or(0);
  const std::int64_t ranks = spec.ranks ? *spec.ranks : slots;
  HVD_CHECK(check_total(ranks));
  const Counts limits = limits_of(spec, allocation);
  if (ranks > sum(limits)) return too_many(spec, allocation, ranks);
  Counts most;
  for (std::size_t i = 0; i < limits.size(); ++i)
    most.push_back(std::min(limits[i], allocation.hosts[i].slots.value_or(1)));
  Counts counts(most.size(), 0);
  const auto left = is_dealt(spec) ? deal(most, ranks, counts) : fill(most, ranks, counts);
  deal(limits, left, counts);
  return counts;
}

// Whether the ranks are placed before a host comes whose slots are not known.
bool is_decided(const JobSpec& spec, const Allocation& allocation) {
  if (spec.ranks_per_host) return true;
  std::int64_t left = spec.ranks.value_or(kMaxRanks);
  if (is_dealt(spec) && left <= static_cast<std::int64_t>(allocation.hosts.size())) return true;
  for (const auto& host : allocation.hosts) {
    if (!is_dealt(spec) && left <= 0) return true;
    if (!host.slots) return false;
    left -= std::min(*host.slots, limit_of(spec, host));
  }
  return true;
}

}  // namespace

Result<Placement> place(const JobSpec& spec, const Allocation& allocation) {
  HVD_TRY(auto counts, count_ranks(spec, allocation));
  Placement placement;
  placement.notes = allocation.notes;
  placement.to_ask = std::move(counts.to_ask);
  if (!placement.to_ask.empty()) {
    placement.notes.push_back(say_to_ask(placement.to_ask));
    return placement;
  }
  HostNotes notes;
  for (std::size_t i = 0; i < counts.by_host.size(); ++i) {
    const Host& host = allocation.hosts[i];
    if (counts.by_host[i] == 0) {
      notes.add_plural(host.name, " gets no rank", " get no rank");
      continue;
    }
    HVD_TRY(HostPlacement placed, place_on_host(spec, host, counts.by_host[i], notes));
    placement.hosts.push_back(std::move(placed));
    placement.size += counts.by_host[i];
  }
  spec.map_by == MapBy::node ? number_by_node(placement) : number_by_slot(placement);
  number_across_hosts(placement);
  auto lines = notes.lines();
  std::move(lines.begin(), lines.end(), std::back_inserter(placement.notes));
  return placement;
}

void add_slurm_notes(const JobSpec& spec, const Host& host, std::size_t ranks, HostNotes& notes) {
  add_missing_gpus(spec, host, notes);
  if (spec.ranks || spec.ranks_per_host || !host.slurm.tasks || !gpus_count(spec, host)) return;
  const int tasks = *host.slurm.tasks;
  const int gpus = count_gpus(host);
  if (tasks == gpus) return;
  if (tasks == 1) {
    notes.add(
        host.name, "SLURM was asked for 1 task on ",
        fmt::format(", where there {} {}; hvdrun starts one rank for each; --ranks-per-host 1 "
                    "starts one a host",
                    gpus == 1 ? "is" : "are", plural(gpus, "GPU")));
    return;
  }
  notes.add(host.name, fmt::format("SLURM was asked for {} tasks on ", tasks),
            fmt::format(", where there {} {}; hvdrun starts one rank per GPU, {}. To have SLURM "
                        "give CPUs for that: #SBATCH --gpus-per-node={} --ntasks-per-node={}; to "
                        "have {} ranks: --ranks-per-host {}{}",
                        gpus == 1 ? "is" : "are", plural(gpus, "GPU"), ranks, gpus, gpus, tasks,
                        tasks, tasks > gpus ? " --oversubscribe" : ""));
}

int count_gpus(const Host& host) {
  return host.inventory ? static_cast<int>(host.inventory->gpus.size())
                        : host.slurm.gpus.value_or(0);
}

bool gpus_count(const JobSpec& spec, const Host& host) {
  return spec.gpu_bind != GpuBind::none && count_gpus(host) > 0;
}

Result<RankCounts> count_ranks(const JobSpec& spec, const Allocation& allocation) {
  HVD_CHECK(check_numbers(spec, allocation));
  RankCounts counts;
  if (!is_decided(spec, allocation)) {
    for (const auto& host : allocation.hosts)
      if (!host.slots) counts.to_ask.push_back(host.name);
    return counts;
  }
  HVD_TRY(counts.by_host, spec.ranks_per_host ? counts_per_host(spec, allocation)
                                              : counts_by_slots(spec, allocation));
  return counts;
}

}  // namespace hvdrun
