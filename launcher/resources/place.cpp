#include "resources/place.hpp"

#include "base/host_list.hpp"
#include "common/text.hpp"
#include "resources/bind_cores.hpp"
#include "resources/count_ranks.hpp"
#include "resources/host_notes.hpp"
#include "scheduler/scheduler.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

std::string list_visible(const HostInventory& inventory) {
  std::string list;
  for (const auto& gpu : inventory.gpus) list += (list.empty() ? "" : ",") + gpu.visible;
  return list;
}

// Without an inventory, only the number of a GPU is known.
void give_expected_gpus(const JobSpec& spec, int gpus, HostPlacement& placed) {
  for (auto& rank : placed.ranks) {
    const int index = rank.local_rank % gpus;
    rank.gpu = index;
    rank.device = spec.gpu_bind == GpuBind::single ? 0 : index;
    rank.devices = spec.gpu_bind == GpuBind::single ? 1 : gpus;
    rank.device_name = fmt::format("GPU {}", index);
  }
}

void give_gpus(const JobSpec& spec, const HostInventory& inventory, const GpuVendors& vendors,
               HostPlacement& placed) {
  if (const auto* vendor = find_gpu_vendor(inventory.gpu_vendor, vendors))
    placed.gpu_variables = vendor->variables;
  const auto& gpus = inventory.gpus;
  const bool single = spec.gpu_bind == GpuBind::single || !inventory.single_because.empty();
  const std::string list = inventory.gpus_need_list ? list_visible(inventory) : "";
  for (auto& rank : placed.ranks) {
    const int index = rank.local_rank % static_cast<int>(gpus.size());
    const Gpu& gpu = gpus[static_cast<std::size_t>(index)];
    rank.gpu = index;
    rank.device = single ? 0 : index;
    rank.devices = single ? 1 : static_cast<int>(gpus.size());
    if (single)
      rank.visible_devices = gpu.visible;
    else if (!list.empty())
      rank.visible_devices = list;
    rank.in_pci_order = !placed.gpu_variables.order.empty() && inventory.gpus_need_list &&
                        !gpu.visible.empty() &&
                        std::isdigit(static_cast<unsigned char>(gpu.visible.front())) != 0;
    rank.device_name = name_gpu(gpu, index);
  }
}

std::vector<Locality> places_of_gpus(const HostInventory& inventory, const HostPlacement& placed) {
  std::vector<Locality> near(placed.ranks.size());
  for (std::size_t i = 0; i < near.size(); ++i) {
    if (!placed.ranks[i].gpu) continue;
    const Gpu& gpu = inventory.gpus[static_cast<std::size_t>(*placed.ranks[i].gpu)];
    near[i] = {gpu.numa_node, gpu.near_cpus};
  }
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
  if (own_nodes.size() == nodes) return;
  // The kernel chooses a node itself for cores whose own has no memory.
  std::ranges::copy_if(own_nodes, std::back_inserter(rank.numa_nodes), [&](int node) {
    return std::ranges::find(inventory.numa_nodes, node) != inventory.numa_nodes.end();
  });
}

Result<void> give_cores(const JobSpec& spec, const Host& host, HostPlacement& placed,
                        HostNotes& notes) {
  const HostInventory& inventory = *host.inventory;
  HVD_TRY(const CoreBinding binding,
          bind_cores(inventory, host.name, places_of_gpus(inventory, placed), spec.bind_to,
                     spec.cpus_per_rank));
  const std::size_t nodes = count_nodes(inventory);
  for (std::size_t i = 0; i < placed.ranks.size(); ++i)
    if (!binding.cores[i].empty())
      bind_to_cores(inventory, binding.cores[i], nodes, placed.ranks[i]);
  for (const auto& note : binding.notes) notes.add(host.name, "", ": " + note);
  return {};
}

std::string_view name_of_scheduler(const Host& host) {
  return host.share.scheduler->name();
}

void add_missing_gpus(const JobSpec& spec, const Host& host, HostNotes& notes) {
  if (!host.inventory || spec.gpu_bind == GpuBind::none) return;
  const std::size_t visible = host.inventory->gpus.size();
  const int promised = host.share.gpus.value_or(0);
  if (visible >= static_cast<std::size_t>(promised)) return;
  notes.add(host.name, fmt::format("{} says that ", name_of_scheduler(host)),
            fmt::format(" has {} ({}), but {} visible there", plural(promised, "GPU"),
                        host.share.gpus_source,
                        visible == 0   ? "none is"
                        : visible == 1 ? "1 is"
                                       : fmt::format("{} are", visible)));
}

void add_share_notes(const JobSpec& spec, const Host& host, std::size_t ranks, HostNotes& notes) {
  add_missing_gpus(spec, host, notes);
  if (spec.ranks || spec.ranks_per_host || !host.share.tasks || !ranks_get_gpus(spec, host)) return;
  const int tasks = *host.share.tasks;
  const int gpus = count_gpus(host);
  if (tasks == gpus || ranks == static_cast<std::size_t>(tasks)) return;  // -H may say so
  if (tasks == 1) {
    notes.add(
        host.name, fmt::format("{} was asked for 1 task on ", name_of_scheduler(host)),
        fmt::format(", where there {} {}; hvdrun starts one rank for each; --ranks-per-host 1 "
                    "starts one per host",
                    gpus == 1 ? "is" : "are", plural(gpus, "GPU")));
    return;
  }
  const auto line = host.share.scheduler->line_for_gpus(gpus, {});
  const auto advice = line.empty() ? " To"
                                   : fmt::format(" To have {} give CPUs for that: {}; to",
                                                 name_of_scheduler(host), line);
  notes.add(host.name, fmt::format("{} was asked for {} tasks on ", name_of_scheduler(host), tasks),
            fmt::format(", where there {} {}; hvdrun starts one rank per GPU, {}.{} have {} "
                        "ranks: --ranks-per-host {}{}",
                        gpus == 1 ? "is" : "are", plural(gpus, "GPU"), ranks, advice, tasks, tasks,
                        tasks > gpus ? " --oversubscribe" : ""));
}

void add_sharing_notes(const JobSpec& spec, const Host& host, std::size_t ranks, HostNotes& notes) {
  const auto on = fmt::format("{} on ", plural(ranks, "rank"));
  const auto gpus = static_cast<std::size_t>(count_gpus(host));
  if (ranks_get_gpus(spec, host) && ranks > gpus)
    notes.add(host.name, on, " share " + plural(gpus, "GPU"));
  const std::size_t cores = host.inventory ? host.inventory->cores.size() : 0;
  if (ranks > cores && cores > 0)
    notes.add(host.name, on, " share " + plural(cores, "core"));
  else if (!ranks_get_gpus(spec, host) && !spec.cpus_per_rank && host.slots &&
           ranks > static_cast<std::size_t>(*host.slots))
    notes.add(host.name, on,
              fmt::format(" for its {} ({})", plural(*host.slots, "slot"), host.slots_source));
}

void add_notes(const JobSpec& spec, const Host& host, std::size_t ranks, HostNotes& notes) {
  if (host.inventory)
    for (const auto& note : host.inventory->notes) notes.add(host.name, "", ": " + note);
  add_share_notes(spec, host, ranks, notes);
  add_sharing_notes(spec, host, ranks, notes);
  if (host.inventory && host.inventory->gpus.empty() && spec.gpu_bind == GpuBind::single)
    notes.add_plural(host.name, " has no GPU to bind a rank to (--gpu-bind single)",
                     " have no GPU to bind a rank to (--gpu-bind single)");
  if (host.inventory && ranks_get_gpus(spec, host) && !host.inventory->single_because.empty())
    notes.add(host.name, "",
              ": " + host.inventory->single_because + ", so each rank sees only its own");
}

// Returns whether some of the ranks must share a core.
bool share_cores(const HostInventory& inventory, std::size_t ranks) {
  const auto count = static_cast<double>(ranks);
  return count > inventory.cpu_quota.value_or(count) ||
         (!inventory.cores.empty() && ranks > inventory.cores.size());
}

// `spares`: so many of `count` are for --spares.
Result<HostPlacement> place_on_host(const JobSpec& spec, const Host& host, int count, int spares,
                                    const GpuVendors& vendors, HostNotes& notes) {
  HostPlacement placed;
  placed.host = host.name;
  placed.is_provisional = !host.inventory;
  placed.ranks.resize(static_cast<std::size_t>(count));
  for (int local = 0; local < count; ++local)
    placed.ranks[static_cast<std::size_t>(local)].local_rank = local;
  add_notes(spec, host, placed.ranks.size(), notes);
  if (!host.inventory) {
    if (ranks_get_gpus(spec, host)) give_expected_gpus(spec, count_gpus(host), placed);
  } else {
    placed.shares_cores = share_cores(*host.inventory, placed.ranks.size());
    if (ranks_get_gpus(spec, host)) give_gpus(spec, *host.inventory, vendors, placed);
    HVD_CHECK(give_cores(spec, host, placed, notes));
  }
  const auto first = placed.ranks.end() - spares;
  placed.spares.assign(std::make_move_iterator(first), std::make_move_iterator(placed.ranks.end()));
  placed.ranks.erase(first, placed.ranks.end());
  return placed;
}

void number_by_slot(Placement& placement) {
  int next = 0;
  for (auto& host : placement.hosts)
    for (auto& rank : host.ranks) rank.rank = next++;
}

// Numbers the first rank of each host, then the second of each that has one, and so on.
void number_by_node(Placement& placement) {
  std::vector<HostPlacement*> open;
  for (auto& host : placement.hosts)
    if (!host.ranks.empty()) open.push_back(&host);
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
      "number after each host ({}:4), decides it now",
      fold_hosts(hosts), hosts.size() == 1 ? "has" : "have",
      hosts.size() == 1 ? "it is" : "they are", hosts.front());
}

}  // namespace

std::string spares_without_slot(const JobSpec& spec, const Allocation& allocation,
                                const Placement& placement) {
  auto missing = static_cast<std::size_t>(spec.elastic.spares);
  for (const auto& host : placement.hosts) missing -= host.spares.size();
  if (missing == 0 || placement.hosts.empty()) return {};
  std::string way = "HOST:N in -H or a hostfile, or more tasks of a scheduler's job";
  const auto& host = allocation.hosts.front();
  const bool is_given =
      allocation.from == HostSource::this_machine || allocation.from == HostSource::request;
  if (allocation.from == HostSource::scheduler)
    way = fmt::format("more tasks or GPUs of {}", name_of_scheduler(host));
  if (is_given && allocation.hosts.size() == 1)
    way = fmt::format("-H {}:{}", host.is_this_machine ? "localhost" : host.address,
                      placement.size + spec.elastic.spares);
  return fmt::format(
      "{} of {} spares (--spares) {} no slot: a spare needs one besides those of the ranks ({})",
      missing, spec.elastic.spares, missing == 1 ? "has" : "have", way);
}

std::string name_gpu(const Gpu& gpu, int index) {
  if (!gpu.name.empty()) return fmt::format("GPU {} ({}, {})", index, gpu.name, gpu.pci_address);
  if (gpu.visible != std::to_string(index)) return fmt::format("GPU {} ({})", index, gpu.visible);
  return fmt::format("GPU {}", index);
}

Result<Placement> place(const JobSpec& spec, const Allocation& allocation,
                        const GpuVendors& vendors) {
  HVD_TRY(auto counted, count_ranks(spec, allocation));
  Placement placement;
  placement.notes = allocation.notes;
  placement.to_ask = std::move(counted.to_ask);
  if (!placement.to_ask.empty()) {
    placement.notes.push_back(say_to_ask(placement.to_ask));
    return placement;
  }
  HostNotes notes;
  for (std::size_t i = 0; i < counted.by_host.size(); ++i) {
    const Host& host = allocation.hosts[i];
    const int spares = counted.spares[i];
    if (counted.by_host[i] == 0) {
      if (spares == 0)
        notes.add_plural(host.name, " gets no rank", " get no rank");
      else
        notes.add_plural(host.name, " has only spares (--spares)", " have only spares (--spares)");
    }
    if (counted.by_host[i] + spares == 0) continue;
    HVD_TRY(HostPlacement placed,
            place_on_host(spec, host, counted.by_host[i] + spares, spares, vendors, notes));
    placement.hosts.push_back(std::move(placed));
    placement.size += counted.by_host[i];
  }
  spec.map_by == MapBy::node ? number_by_node(placement) : number_by_slot(placement);
  number_across_hosts(placement);
  auto lines = notes.lines();
  std::move(lines.begin(), lines.end(), std::back_inserter(placement.notes));
  if (auto note = spares_without_slot(spec, allocation, placement); !note.empty())
    placement.notes.push_back(std::move(note));
  return placement;
}

}  // namespace hvdrun
