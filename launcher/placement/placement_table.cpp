#include "placement/placement_table.hpp"

#include "model/rank_set.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kColumns = 6;
using Row = std::array<std::string, kColumns>;

std::string counted(std::size_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

// The hosts of a placement stand in the allocation's order, so the search goes on from the last.
const Host& find_host(const Allocation& allocation, const std::string& name, std::size_t& from) {
  while (from + 1 < allocation.hosts.size() && allocation.hosts[from].name != name) ++from;
  return allocation.hosts[from];
}

std::string describe_host(const Host& host) {
  const auto& inventory = host.inventory;
  std::string text = fmt::format("  {}: {} ({}), {}, {}", host.name,
                                 counted(static_cast<std::size_t>(host.slots), "slot"),
                                 host.slots_source, counted(inventory.cores.size(), "core"),
                                 counted(inventory.numa_nodes.size(), "NUMA node"));
  if (!inventory.topology_file.empty()) text += fmt::format(" from {}", inventory.topology_file);
  text += fmt::format(", {}", counted(inventory.gpus.size(), "GPU"));
  if (!inventory.gpu_source.empty()) text += fmt::format(" ({})", inventory.gpu_source);
  return text + "\n";
}

std::string folded(const std::vector<int>& numbers) {
  return numbers.empty() ? "-" : fold_ranks(numbers);
}

Row row_of(const std::string& host, const RankPlacement& rank) {
  return {std::to_string(rank.rank),
          host,
          std::to_string(rank.local_rank),
          rank.device_name.empty() ? "-" : rank.device_name,
          folded(rank.cpus),
          folded(rank.numa_nodes)};
}

std::string print_rows(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i)
      line += fmt::format("{:<{}}  ", row[i], i + 1 < kColumns ? widths[i] : 0);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// "8 cores, package 0, NUMA 0": of the cores that the CPUs belong to.
std::string describe_cores(const HostInventory& inventory, const std::vector<int>& cpus) {
  std::size_t cores = 0;
  std::set<int> packages;
  std::set<int> nodes;
  for (const auto& core : inventory.cores) {
    if (!std::binary_search(cpus.begin(), cpus.end(), core.pus.front())) continue;
    ++cores;
    packages.insert(core.package);
    nodes.insert(core.numa_node);
  }
  return fmt::format("{}, package {}, NUMA {}", counted(cores, "core"),
                     fold_ranks({packages.begin(), packages.end()}),
                     fold_ranks({nodes.begin(), nodes.end()}));
}

}  // namespace

std::string placement_table(const Allocation& allocation, const Placement& placement) {
  std::string text = fmt::format("{} on {}; hosts from: {}\n",
                                 counted(static_cast<std::size_t>(placement.size), "rank"),
                                 counted(placement.hosts.size(), "host"), allocation.source);
  for (const auto& host : allocation.hosts) text += describe_host(host);

  std::vector<Row> rows{{"RANK", "HOST", "LOCAL", "GPU", "CPUS", "NUMA"}};
  for (const auto& host : placement.hosts)
    for (const auto& rank : host.ranks) rows.push_back(row_of(host.host, rank));
  text += "\n" + print_rows(rows);

  if (!placement.notes.empty()) text += "\n";
  for (const auto& note : placement.notes) text += "note: " + note + "\n";
  return text;
}

std::string bindings_line(const Host& host, const RankPlacement& rank) {
  std::string text = fmt::format("rank {} on {}: ", rank.rank, host.name);
  text += rank.cpus.empty() ? "not bound"
                            : fmt::format("CPUs {} ({})", fold_ranks(rank.cpus),
                                          describe_cores(host.inventory, rank.cpus));
  if (!rank.device_name.empty()) text += ", " + rank.device_name;
  return text;
}

std::vector<std::string> bindings_lines(const Allocation& allocation, const Placement& placement) {
  std::vector<std::string> lines;
  lines.reserve(static_cast<std::size_t>(placement.size));
  std::size_t from = 0;
  for (const auto& placed : placement.hosts) {
    const Host& host = find_host(allocation, placed.host, from);
    for (const auto& rank : placed.ranks) lines.push_back(bindings_line(host, rank));
  }
  return lines;
}

}  // namespace hvdrun
