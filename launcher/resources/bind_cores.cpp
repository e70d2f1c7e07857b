#include "resources/bind_cores.hpp"

#include "resources/pick_cores.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using Parts = std::vector<Cores>;  // by local rank
using Near = std::vector<Locality>;
using Sizes = std::vector<std::vector<std::size_t>>;  // by kind of core and local rank

// Returns the positions of the cores that `is_meant` accepts.
template <class Predicate>
Cores cores_where(const HostInventory& inventory, Predicate is_meant) {
  Cores found;
  for (std::size_t i = 0; i < inventory.cores.size(); ++i)
    if (is_meant(inventory.cores[i])) found.push_back(static_cast<int>(i));
  return found;
}

Cores all_cores(const HostInventory& inventory) {
  return cores_where(inventory, [](const Core&) { return true; });
}

// Returns the numbers of what the cores are in: packages or NUMA nodes.
std::set<int> domains_of(const HostInventory& inventory, const Cores& cores, int Core::*domain) {
  std::set<int> numbers;
  for (const int i : cores) numbers.insert(inventory.cores[static_cast<std::size_t>(i)].*domain);
  return numbers;
}

// Returns all cores of the host in the same packages or NUMA nodes.
Cores whole_domains(const HostInventory& inventory, const Cores& of, int Core::*domain) {
  const auto numbers = domains_of(inventory, of, domain);
  return cores_where(inventory, [&](const Core& core) { return numbers.contains(core.*domain); });
}

// What is near a rank, the nearest first: the cores beside its GPU, those of its NUMA node and
// those of its package. Each may be empty.
using Surroundings = std::array<Cores, 3>;

Surroundings surroundings_of(const HostInventory& inventory, const Locality& near) {
  Surroundings found;
  const std::set<int> cpus(near.cpus.begin(), near.cpus.end());
  found[0] =
      cores_where(inventory, [&](const Core& core) { return cpus.contains(core.pus.front()); });
  found[1] =
      cores_where(inventory, [&](const Core& core) { return core.numa_node == near.numa_node; });
  found[2] = whole_domains(inventory, found[1].empty() ? found[0] : found[1], &Core::package);
  return found;
}

// A host's cores and ranks, with what is near each rank.
struct HostRanks {
  const HostInventory& inventory;
  std::vector<Surroundings> near;  // by local rank
  // The ranks in the order of their GPUs' places, those without one last. In this order an equal
  // part of all cores is mostly an equal part of the rank's node.
  std::vector<std::size_t> order;
};

HostRanks look_around(const HostInventory& inventory, const Near& near) {
  HostRanks host{inventory, {}, std::vector<std::size_t>(near.size())};
  std::vector<std::pair<int, int>> places;  // of the first core in the node, and beside the GPU
  for (const auto& locality : near) {
    const auto& around = host.near.emplace_back(surroundings_of(inventory, locality));
    constexpr int kLast = std::numeric_limits<int>::max();
    const int node = around[2].empty()   ? kLast
                     : around[1].empty() ? around[2].front()
                                         : around[1].front();
    places.emplace_back(node, around[0].empty() ? node : around[0].front());
  }
  std::iota(host.order.begin(), host.order.end(), std::size_t{0});
  std::ranges::stable_sort(host.order, {}, [&](std::size_t rank) { return places[rank]; });
  return host;
}

// Returns the ranks by what is near them at one of the levels of their surroundings. Those without
// it are left out.
std::map<Cores, std::vector<std::size_t>> ranks_near(const HostRanks& host, std::size_t level) {
  std::map<Cores, std::vector<std::size_t>> ranks;
  for (const auto rank : host.order)
    if (!host.near[rank][level].empty()) ranks[host.near[rank][level]].push_back(rank);
  return ranks;
}

// Gives the ranks what they lack from those of the free cores that are near all of them, or shares
// these evenly if they are too few.
void take_near(const HostRanks& host, const Cores& near, const std::vector<std::size_t>& ranks,
               std::vector<std::size_t>& lacking, Cores& free, Parts& parts) {
  Cores open;
  std::ranges::set_intersection(near, free, std::back_inserter(open));
  std::size_t wanted = 0;
  for (const auto rank : ranks) wanted += lacking[rank];
  const std::size_t total = open.size();
  std::vector<std::size_t> fair;
  std::size_t left = total;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t even = wanted <= total ? total : part_size(total, i, ranks.size());
    fair.push_back(std::min(even, lacking[ranks[i]]));
    left -= fair.back();
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t more = std::min(left, lacking[ranks[i]] - fair[i]);
    left -= more;
    const auto picked = pick_cores(host.inventory.cores, open, fair[i] + more);
    remove_cores(open, picked);
    remove_cores(free, picked);
    lacking[ranks[i]] -= picked.size();
    auto& part = parts[ranks[i]];
    part.insert(part.end(), picked.begin(), picked.end());
  }
}

// Gives each rank its number of cores of each kind, the nearest first.
Parts parts_of_sizes(const HostRanks& host, Sizes sizes) {
  const Cores all = all_cores(host.inventory);
  const auto kinds = by_kind(host.inventory.cores, all);
  Parts parts(host.near.size());
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    Cores free = kinds[kind];
    for (std::size_t level = 0; level < std::tuple_size_v<Surroundings>; ++level)
      for (const auto& [near, ranks] : ranks_near(host, level))
        take_near(host, near, ranks, sizes[kind], free, parts);
    take_near(host, all, host.order, sizes[kind], free, parts);
  }
  for (auto& part : parts) std::ranges::sort(part);
  return parts;
}

// Moves the odd cores to the ranks whose surroundings have them: of 63 cores in 8 equal groups, the
// rank beside the smaller group gets 7.
void move_odd_cores(const HostRanks& host, std::size_t level, std::vector<std::size_t>& sizes) {
  std::vector<std::size_t> donors;     // ranks with an odd core that is not near them
  std::vector<std::size_t> receivers;  // ranks without one, who have it near them
  const std::size_t least = *std::ranges::min_element(sizes);
  for (const auto& [near, ranks] : ranks_near(host, level)) {
    std::size_t wanted = 0;
    for (const auto rank : ranks) wanted += sizes[rank];
    for (const auto rank : ranks) {
      if (wanted > near.size() && sizes[rank] > least) {
        donors.push_back(rank);
        --wanted;
      } else if (wanted < near.size() && sizes[rank] == least) {
        receivers.push_back(rank);
        ++wanted;
      }
    }
  }
  for (std::size_t i = 0; i < std::min(donors.size(), receivers.size()); ++i)
    std::swap(sizes[donors[i]], sizes[receivers[i]]);
}

// Returns equal parts of all cores; each rank gets cores near it first.
Parts equal_parts(const HostRanks& host) {
  const auto kinds = by_kind(host.inventory.cores, all_cores(host.inventory));
  const auto divided = divide_kinds(kinds, host.order.size());
  Sizes sizes(kinds.size(), std::vector<std::size_t>(host.order.size()));
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    for (std::size_t i = 0; i < host.order.size(); ++i)
      sizes[kind][host.order[i]] = divided[kind][i];
  if (kinds.size() == 1)
    for (const std::size_t level : {1, 0}) move_odd_cores(host, level, sizes.front());
  return parts_of_sizes(host, std::move(sizes));
}

// Divides each node's cores into equal parts for the ranks near it. Returns nullopt if a rank's
// node is unknown, or has fewer cores than ranks.
std::optional<Parts> near_parts(const HostRanks& host) {
  const auto kinds = by_kind(host.inventory.cores, all_cores(host.inventory));
  Sizes sizes(kinds.size(), std::vector<std::size_t>(host.order.size()));
  std::size_t placed = 0;
  for (const auto& [node, ranks] : ranks_near(host, 1)) {
    if (node.size() < ranks.size()) return std::nullopt;
    std::vector<Cores> of_node;
    for (const auto& kind : kinds)
      std::ranges::set_intersection(kind, node, std::back_inserter(of_node.emplace_back()));
    const auto divided = divide_kinds(of_node, ranks.size());
    for (std::size_t kind = 0; kind < kinds.size(); ++kind)
      for (std::size_t i = 0; i < ranks.size(); ++i) sizes[kind][ranks[i]] = divided[kind][i];
    placed += ranks.size();
  }
  if (placed < host.order.size()) return std::nullopt;
  return parts_of_sizes(host, std::move(sizes));
}

// Leaves `count` cores of a rank's part: fast ones first, and then those near the rank.
void keep_best(const HostRanks& host, std::size_t rank, std::size_t count, Cores& part) {
  Cores kept;
  for (auto& kind : by_kind(host.inventory.cores, part))
    for (std::size_t level = 0; level <= std::tuple_size_v<Surroundings>; ++level) {
      Cores open;
      if (level < std::tuple_size_v<Surroundings>)
        std::ranges::set_intersection(kind, host.near[rank][level], std::back_inserter(open));
      else
        open = kind;
      const auto picked = pick_cores(host.inventory.cores, open, count - kept.size());
      remove_cores(kind, picked);
      kept.insert(kept.end(), picked.begin(), picked.end());
    }
  std::ranges::sort(kept);
  part = std::move(kept);
}

// Returns whole NUMA nodes, or packages, for ranks without a known GPU, by local rank: those whose
// middle core is in the rank's equal part of all cores, or if there is none that of the part's
// middle. So each has ranks if these suffice, and a rank has several only if it shares none.
Parts domains_by_rank(const HostInventory& inventory, std::size_t ranks, int Core::*domain) {
  const std::size_t total = inventory.cores.size();
  std::map<int, Cores> domains;
  for (std::size_t i = 0; i < total; ++i)
    domains[inventory.cores[i].*domain].push_back(static_cast<int>(i));
  Parts parts(ranks);
  for (const auto& [number, cores] : domains) {
    const auto middle = static_cast<std::size_t>(cores[cores.size() / 2]);
    auto& part = parts[middle * ranks / total];
    part.insert(part.end(), cores.begin(), cores.end());
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto middle = (2 * rank + 1) * total / (2 * ranks);
    if (parts[rank].empty()) parts[rank] = domains.at(inventory.cores[middle].*domain);
    std::ranges::sort(parts[rank]);
  }
  return parts;
}

// Returns the whole NUMA nodes, or packages, that are near each rank.
Parts domain_parts(const HostRanks& host, int Core::*domain) {
  auto parts = domains_by_rank(host.inventory, host.near.size(), domain);
  for (std::size_t rank = 0; rank < host.near.size(); ++rank) {
    const auto& near = host.near[rank];
    if (!near[2].empty())
      parts[rank] = whole_domains(host.inventory, near[1].empty() ? near[0] : near[1], domain);
  }
  return parts;
}

// Says what is wrong if the cores are too few. Returns an empty text if they suffice.
std::string shortage(std::size_t cores, std::size_t ranks, std::optional<int> cpus_per_rank) {
  const std::size_t each = cpus_per_rank ? static_cast<std::size_t>(*cpus_per_rank) : 1;
  if (ranks * each <= cores) return {};
  if (!cpus_per_rank) return fmt::format("{} ranks are too many for {} cores", ranks, cores);
  return fmt::format("--cpus-per-rank {}: {} ranks need {} cores, and there are {}", each, ranks,
                     ranks * each, cores);
}

// Says how many ranks have slow cores only, while others have fast ones. Returns an empty text if
// none has.
std::string slow_ranks(const HostInventory& inventory, const Parts& parts) {
  const auto kinds = by_kind(inventory.cores, all_cores(inventory));
  const auto is_fast = [&](int core) { return std::ranges::binary_search(kinds.front(), core); };
  const auto slow = std::ranges::count_if(
      parts, [&](const Cores& part) { return std::ranges::none_of(part, is_fast); });
  const auto fast = kinds.front().size();
  if (slow == 0 || static_cast<std::size_t>(slow) == parts.size()) return {};
  return fmt::format(
      "{} of {} ranks {} slow cores only ({} fast, {} slow), and the others wait for them; with "
      "--ranks-per-host {} each rank has a fast one",
      slow, parts.size(), slow == 1 ? "has" : "have", fast, inventory.cores.size() - fast, fast);
}

}  // namespace

Result<CoreBinding> bind_cores(const HostInventory& inventory, const std::string& host_name,
                               const Near& near, BindTo bind_to, std::optional<int> cpus_per_rank) {
  CoreBinding binding;
  binding.cores.resize(near.size());
  const bool only_rank = near.size() == 1 && !(bind_to == BindTo::core && cpus_per_rank);
  if (bind_to == BindTo::none || only_rank || near.empty() || inventory.cores.empty())
    return binding;

  const HostRanks host = look_around(inventory, near);
  if (bind_to == BindTo::numa || bind_to == BindTo::socket) {
    binding.cores = domain_parts(host, bind_to == BindTo::numa ? &Core::numa_node : &Core::package);
  } else if (const auto problem = shortage(inventory.cores.size(), near.size(), cpus_per_rank);
             problem.empty()) {
    std::optional<Parts> strict;
    if (bind_to == BindTo::core && !cpus_per_rank) strict = near_parts(host);
    binding.cores = strict ? std::move(*strict) : equal_parts(host);
    if (cpus_per_rank)
      for (std::size_t rank = 0; rank < near.size(); ++rank)
        keep_best(host, rank, static_cast<std::size_t>(*cpus_per_rank), binding.cores[rank]);
    if (auto note = slow_ranks(inventory, binding.cores); !note.empty())
      binding.notes.push_back(std::move(note));
  } else if (bind_to == BindTo::core) {
    return fail(fmt::format("--bind-to core on {}: {}; use fewer ranks{}, or --bind-to none",
                            host_name, problem, cpus_per_rank ? " or fewer cores per rank" : ""),
                kExitUsage);
  } else if (cpus_per_rank) {
    binding.notes.push_back(problem + ": not bound to cores");
  }
  // A rank with all cores of the host is not bound.
  for (auto& cores : binding.cores)
    if (cores.size() == inventory.cores.size()) cores.clear();
  return binding;
}

}  // namespace hvdrun
