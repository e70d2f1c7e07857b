#include "resources/bind_cores.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using Cores = std::vector<int>;    // positions in HostInventory::cores, ascending
using Parts = std::vector<Cores>;  // by local rank
using Near = std::vector<std::optional<int>>;

// Returns where the i-th of `parts` nearly equal parts of `total` begins. The larger parts are
// spread out, so that the parts of 4 ranks on 2 nodes of 3 cores do not straddle the nodes.
std::size_t part_begin(std::size_t total, std::size_t i, std::size_t parts) {
  return total * i / parts;
}
std::size_t part_size(std::size_t total, std::size_t i, std::size_t parts) {
  return part_begin(total, i + 1, parts) - part_begin(total, i, parts);
}

void take(Cores& from, std::size_t count, Cores& to) {
  count = std::min(count, from.size());
  to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
  from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
}

std::map<int, Cores> cores_by_node(const HostInventory& inventory) {
  std::map<int, Cores> nodes;
  for (std::size_t i = 0; i < inventory.cores.size(); ++i)
    nodes[inventory.cores[i].numa_node].push_back(static_cast<int>(i));
  return nodes;
}

std::map<int, std::vector<std::size_t>> ranks_by_node(const Near& near) {
  std::map<int, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < near.size(); ++rank)
    if (near[rank]) ranks[*near[rank]].push_back(rank);
  return ranks;
}

// Returns the ranks in the order of their GPUs' nodes, those without one last. In this order an
// equal part of all cores is mostly an equal part of the rank's node.
std::vector<std::size_t> order_by_node(const Near& near) {
  std::vector<std::size_t> order(near.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    constexpr int kLast = std::numeric_limits<int>::max();
    return near[a].value_or(kLast) < near[b].value_or(kLast);
  });
  return order;
}

// Returns how many cores each rank gets, by local rank.
std::vector<std::size_t> sizes_of_parts(std::size_t cores, const std::vector<std::size_t>& order,
                                        std::optional<int> cpus_per_rank) {
  std::vector<std::size_t> sizes(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    sizes[order[place]] = cpus_per_rank ? static_cast<std::size_t>(*cpus_per_rank)
                                        : part_size(cores, place, order.size());
  return sizes;
}

// Gives the ranks near one node their number of cores from it, or shares it evenly if it has too
// few.
void take_near(const std::vector<std::size_t>& ranks, const std::vector<std::size_t>& sizes,
               Cores& free, Parts& parts) {
  std::size_t wanted = 0;
  for (const auto rank : ranks) wanted += sizes[rank];
  const std::size_t total = free.size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t fair = wanted <= total ? sizes[ranks[i]] : part_size(total, i, ranks.size());
    take(free, std::min(fair, sizes[ranks[i]]), parts[ranks[i]]);
  }
}

// Returns equal parts of all cores; each rank gets cores near it first.
Parts equal_parts(const HostInventory& inventory, const Near& near,
                  std::optional<int> cpus_per_rank) {
  auto free_by_node = cores_by_node(inventory);
  const auto order = order_by_node(near);
  const auto sizes = sizes_of_parts(inventory.cores.size(), order, cpus_per_rank);
  Parts parts(near.size());
  for (const auto& [node, ranks] : ranks_by_node(near))
    take_near(ranks, sizes, free_by_node[node], parts);

  Cores free;
  for (const auto& [node, cores] : free_by_node)
    free.insert(free.end(), cores.begin(), cores.end());
  std::sort(free.begin(), free.end());
  for (const auto rank : order) {
    take(free, sizes[rank] - parts[rank].size(), parts[rank]);
    std::sort(parts[rank].begin(), parts[rank].end());
  }
  return parts;
}

// Divides each node's cores into equal parts for the ranks near it. Returns nullopt if a rank's
// node is unknown, or has fewer cores than ranks.
std::optional<Parts> near_parts(const HostInventory& inventory, const Near& near) {
  auto free_by_node = cores_by_node(inventory);
  Parts parts(near.size());
  std::size_t placed = 0;
  for (const auto& [node, ranks] : ranks_by_node(near)) {
    Cores& free = free_by_node[node];
    const std::size_t total = free.size();
    if (total < ranks.size()) return std::nullopt;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      take(free, part_size(total, i, ranks.size()), parts[ranks[i]]);
    placed += ranks.size();
  }
  if (placed < near.size()) return std::nullopt;
  return parts;
}

// Returns the nodes of the rank's equal part of the cores. There may be more ranks than cores.
std::set<int> nodes_of_part(const HostInventory& inventory, std::size_t rank, std::size_t ranks) {
  const std::size_t cores = inventory.cores.size();
  const std::size_t begin = part_begin(cores, rank, ranks);
  const std::size_t end = std::max(begin + 1, part_begin(cores, rank + 1, ranks));
  std::set<int> nodes;
  for (std::size_t i = begin; i < end; ++i) nodes.insert(inventory.cores[i].numa_node);
  return nodes;
}

Parts whole_nodes(const HostInventory& inventory, const Near& near) {
  const auto cores = cores_by_node(inventory);
  Parts parts(near.size());
  for (std::size_t rank = 0; rank < near.size(); ++rank) {
    const bool near_is_usable = near[rank] && cores.count(*near[rank]) != 0;
    const std::set<int> nodes =
        near_is_usable ? std::set<int>{*near[rank]} : nodes_of_part(inventory, rank, near.size());
    for (const int node : nodes)
      parts[rank].insert(parts[rank].end(), cores.at(node).begin(), cores.at(node).end());
    std::sort(parts[rank].begin(), parts[rank].end());
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

}  // namespace

Result<CoreBinding> bind_cores(const HostInventory& inventory, const std::string& host,
                               const Near& near, BindTo bind_to, std::optional<int> cpus_per_rank) {
  CoreBinding binding;
  binding.cores.resize(near.size());
  const bool only_rank = near.size() == 1 && !(bind_to == BindTo::core && cpus_per_rank);
  if (bind_to == BindTo::none || only_rank || near.empty() || inventory.cores.empty())
    return binding;

  if (bind_to == BindTo::numa) {
    binding.cores = whole_nodes(inventory, near);
  } else if (const auto problem = shortage(inventory.cores.size(), near.size(), cpus_per_rank);
             problem.empty()) {
    std::optional<Parts> strict;
    if (bind_to == BindTo::core && !cpus_per_rank) strict = near_parts(inventory, near);
    binding.cores = strict ? std::move(*strict) : equal_parts(inventory, near, cpus_per_rank);
  } else if (bind_to == BindTo::core) {
    return fail(fmt::format("--bind-to core on {}: {}; use fewer ranks{}, or --bind-to none", host,
                            problem, cpus_per_rank ? " or fewer cores per rank" : ""),
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
