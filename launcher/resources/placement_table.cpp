#include "resources/placement_table.hpp"

#include "base/host_list.hpp"
#include "common/text.hpp"
#include "model/rank_set.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// With more hosts than this there is one row per kind of host instead of one per rank.
constexpr std::size_t kMostHostsInFull = 16;

// Returns the host of this name, and sets `from` to its index. A placement's hosts are in the
// allocation's order, so the next search continues from there.
const Host& find_host(const Allocation& allocation, const std::string& name, std::size_t& from) {
  while (from + 1 < allocation.hosts.size() && allocation.hosts[from].name != name) ++from;
  return allocation.hosts[from];
}

// Returns the numbers of what the cores share: packages, NUMA nodes or L3 caches.
std::vector<int> domains_of(const std::vector<Core>& cores, int Core::*domain) {
  std::set<int> numbers;
  for (const auto& core : cores) numbers.insert(core.*domain);
  return {numbers.begin(), numbers.end()};
}

// Returns whether NUMA nodes have several L3 caches, so that it matters in which one a core is.
bool has_smaller_caches(const std::vector<Core>& cores) {
  return domains_of(cores, &Core::l3_cache).size() > domains_of(cores, &Core::numa_node).size();
}

// Returns "16 cores", or "16 cores (8 of them fast)" if `host` has slower ones, too.
std::string count_cores(const std::vector<Core>& cores, const std::vector<Core>& host) {
  std::string text = plural(cores.size(), "core");
  const auto kinds = domains_of(host, &Core::kind);
  if (kinds.size() < 2) return text;
  return text +
         fmt::format(" ({} of them fast)", std::ranges::count(cores, kinds.front(), &Core::kind));
}

std::string describe_inventory(const HostInventory& inventory) {
  const auto& cores = inventory.cores;
  std::string text = fmt::format(", {}, {}", count_cores(cores, cores),
                                 plural(domains_of(cores, &Core::numa_node).size(), "NUMA node"));
  if (has_smaller_caches(cores))
    text += ", " + plural(domains_of(cores, &Core::l3_cache).size(), "L3 cache");
  if (!inventory.topology_file.empty()) text += fmt::format(" from {}", inventory.topology_file);
  text += fmt::format(", {}", plural(inventory.gpus.size(), "GPU"));
  if (!inventory.gpu_source.empty()) text += fmt::format(" ({})", inventory.gpu_source);
  return text;
}

std::string describe_share(const JobShare& share) {
  std::string text;
  if (share.cpus) text += ", " + plural(*share.cpus, "CPU");
  if (share.gpus) text += fmt::format(", {} ({})", plural(*share.gpus, "GPU"), share.gpus_source);
  return text;
}

std::string describe_host(const Host& host) {
  std::string text = host.slots
                         ? fmt::format("{} ({})", plural(*host.slots, "slot"), host.slots_source)
                         : "slots " + host.slots_source;
  text += host.inventory ? describe_inventory(*host.inventory) : describe_share(host.share);
  if (!host.inventory && host.slots) text += ", not looked at yet";
  if (!host.user.empty()) text += ", as " + host.user;
  if (host.port) text += fmt::format(", port {}", *host.port);
  return text;
}

// Returns one line for all adjacent hosts with the same description.
std::string describe_hosts(const std::vector<Host>& hosts) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size();) {
    const std::string description = describe_host(hosts[i]);
    std::vector<std::string> names;
    for (; i < hosts.size() && (names.empty() || describe_host(hosts[i]) == description); ++i)
      names.push_back(hosts[i].name);
    text += fmt::format("  {}{}: {}\n", fold_hosts(names), names.size() > 1 ? ", each" : "",
                        description);
  }
  return text;
}

std::string folded(const std::vector<int>& numbers) {
  return numbers.empty() ? "-" : fold_ranks(numbers);
}

// Returns the cells GPU, CPUS and NUMA of a rank.
TableRow devices_of(const RankPlacement& rank) {
  return {rank.device_name.empty() ? "-" : rank.device_name, folded(rank.cpus),
          folded(rank.numa_nodes)};
}

std::string print_rows(const std::vector<TableRow>& rows) {
  std::string text;
  for (const auto& line : table_lines(rows)) text += line + "\n";
  return text;
}

TableRow row_of(std::string name, const HostPlacement& host, const RankPlacement& rank) {
  TableRow row{std::move(name), host.host, std::to_string(rank.local_rank)};
  for (auto& text : devices_of(rank)) row.push_back(std::move(text));
  return row;
}

std::string print_ranks(const Placement& placement) {
  std::map<int, TableRow> by_rank;
  std::vector<TableRow> spares;
  for (const auto& host : placement.hosts) {
    for (const auto& rank : host.ranks)
      by_rank.emplace(rank.rank, row_of(std::to_string(rank.rank), host, rank));
    for (const auto& spare : host.spares) spares.push_back(row_of("spare", host, spare));
  }
  std::vector<TableRow> rows{{"RANK", "HOST", "LOCAL", "GPU", "CPUS", "NUMA"}};
  for (auto& [rank, row] : by_rank) rows.push_back(std::move(row));
  std::ranges::move(spares, std::back_inserter(rows));
  return print_rows(rows);
}

// Hosts whose local ranks have the same devices and cores.
struct Kind {
  std::vector<TableRow> rows;  // LOCAL, GPU, CPUS, NUMA
  std::vector<std::string> hosts;
  std::vector<int> ranks;
};

std::vector<Kind> kinds_of(const Placement& placement) {
  std::vector<Kind> kinds;
  std::map<std::vector<TableRow>, std::size_t> known;
  for (const auto& host : placement.hosts) {
    if (host.ranks.empty()) continue;
    std::vector<TableRow> rows;
    for (const auto& rank : host.ranks) {
      rows.push_back(devices_of(rank));
      rows.back().insert(rows.back().begin(), std::to_string(rank.local_rank));
    }
    const auto [at, is_new] = known.emplace(rows, kinds.size());
    if (is_new) kinds.push_back({std::move(rows), {}, {}});
    auto& kind = kinds[at->second];
    kind.hosts.push_back(host.host);
    for (const auto& rank : host.ranks) kind.ranks.push_back(rank.rank);
  }
  return kinds;
}

// Returns "spares: 2 on n[17-18]", with a line for each number.
std::string print_spares(const Placement& placement) {
  std::map<std::size_t, std::vector<std::string>> hosts;  // by the number of their spares
  for (const auto& host : placement.hosts)
    if (!host.spares.empty()) hosts[host.spares.size()].push_back(host.host);
  std::string text;
  for (const auto& [count, names] : hosts)
    text += fmt::format("\nspares: {} on {}{}\n", count, names.size() > 1 ? "each of " : "",
                        fold_hosts(names));
  return text;
}

// Returns whether any rank of the kind has a GPU, CPUs or NUMA nodes.
bool has_devices(const Kind& kind) {
  return std::any_of(kind.rows.begin(), kind.rows.end(), [](const TableRow& row) {
    return std::any_of(row.begin() + 1, row.end(), [](const auto& text) { return text != "-"; });
  });
}

std::string print_kinds(const Placement& placement) {
  auto kinds = kinds_of(placement);
  std::vector<TableRow> rows{{"RANKS", "HOSTS", "EACH"}};
  for (auto& kind : kinds) {
    std::sort(kind.ranks.begin(), kind.ranks.end());
    rows.push_back(
        {fold_ranks(kind.ranks), fold_hosts(kind.hosts), std::to_string(kind.rows.size())});
  }
  std::string text = print_rows(rows);
  for (auto& kind : kinds) {
    if (!has_devices(kind)) continue;
    kind.rows.insert(kind.rows.begin(), {"LOCAL", "GPU", "CPUS", "NUMA"});
    text += fmt::format("\non {}{}\n{}", kind.hosts.size() > 1 ? "each of " : "",
                        fold_hosts(kind.hosts), print_rows(kind.rows));
  }
  return text + print_spares(placement);
}

// Returns "8 cores, package 0, NUMA 0" for the cores that the CPUs belong to, and their L3 caches
// if a NUMA node has several.
std::string describe_cores(const HostInventory& inventory, const std::vector<int>& cpus) {
  std::vector<Core> cores;
  for (const auto& core : inventory.cores)
    if (std::binary_search(cpus.begin(), cpus.end(), core.pus.front())) cores.push_back(core);
  std::string text = fmt::format("{}, package {}, NUMA {}", count_cores(cores, inventory.cores),
                                 fold_ranks(domains_of(cores, &Core::package)),
                                 fold_ranks(domains_of(cores, &Core::numa_node)));
  if (has_smaller_caches(inventory.cores))
    text += ", L3 " + fold_ranks(domains_of(cores, &Core::l3_cache));
  return text;
}

std::string say_binding(const Host& host, const RankPlacement& rank) {
  if (!host.inventory) return "not known before the host is asked";
  if (rank.cpus.empty()) return "not bound";
  return fmt::format("CPUs {} ({})", fold_ranks(rank.cpus),
                     describe_cores(*host.inventory, rank.cpus));
}

std::string bindings_line(const Host& host, const RankPlacement& rank) {
  std::string text =
      fmt::format("rank {} on {}: {}", rank.rank, host.name, say_binding(host, rank));
  if (!rank.device_name.empty()) text += ", " + rank.device_name;
  return text;
}

}  // namespace

std::string placement_table(const Allocation& allocation, const Placement& placement) {
  std::string text =
      placement.to_ask.empty()
          ? fmt::format("{} on {}", plural(placement.size, "rank"),
                        plural(placement.hosts_with_ranks(), "host"))
          : fmt::format("{}, ranks not placed yet", plural(allocation.hosts.size(), "host"));
  text += fmt::format("; hosts from: {}\n", allocation.source);
  for (const auto& reason : allocation.reasons) text += "  why: " + reason + "\n";
  text += describe_hosts(allocation.hosts);

  if (placement.hosts.size() > kMostHostsInFull)
    text += "\n" + print_kinds(placement);
  else if (!placement.hosts.empty())
    text += "\n" + print_ranks(placement);

  if (!placement.notes.empty()) text += "\n";
  for (const auto& note : placement.notes) text += "note: " + note + "\n";
  return text;
}

std::vector<std::string> bindings_lines(const Allocation& allocation, const Placement& placement) {
  std::vector<std::string> lines(static_cast<std::size_t>(placement.size));
  std::size_t from = 0;
  for (const auto& placed : placement.hosts) {
    const Host& host = find_host(allocation, placed.host, from);
    for (const auto& rank : placed.ranks)
      lines[static_cast<std::size_t>(rank.rank)] = bindings_line(host, rank);
  }
  return lines;
}

}  // namespace hvdrun
