#include "resources/placement_text.hpp"

#include "common/text.hpp"
#include "model/rank_set.hpp"
#include "slurm/host_list.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hvdrun {

void HostNotes::append(const std::string& host, Note note) {
  const auto [at, is_new] = known_.emplace(std::tuple(note.before, note.after_one), notes_.size());
  if (is_new) notes_.push_back(std::move(note));
  notes_[at->second].hosts.push_back(host);
}

void HostNotes::add(const std::string& host, std::string before, const std::string& after) {
  append(host, {std::move(before), after, after, {}});
}

void HostNotes::add_plural(const std::string& host, std::string after_one, std::string after_many) {
  append(host, {"", std::move(after_one), std::move(after_many), {}});
}

std::vector<std::string> HostNotes::lines() const {
  std::vector<std::string> lines;
  for (const auto& note : notes_) {
    const bool is_one = note.hosts.size() == 1;
    lines.push_back(note.before + (is_one || note.before.empty() ? "" : "each of ") +
                    fold_hosts(note.hosts) + (is_one ? note.after_one : note.after_many));
  }
  return lines;
}

namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json gpu_json(const Gpu& gpu, int index) {
  return {{"index", index},
          {"visible", gpu.visible},
          {"uuid", text_or_null(gpu.uuid)},
          {"pci_address", text_or_null(gpu.pci_address)},
          {"name", text_or_null(gpu.name)},
          {"memory_bytes", gpu.memory_bytes == 0 ? Json(nullptr) : Json(gpu.memory_bytes)},
          {"numa_node", or_null(gpu.numa_node)}};
}

Json rank_json(const std::optional<HostInventory>& inventory, const RankPlacement& rank) {
  Json gpu;
  if (rank.gpu && inventory)
    gpu = gpu_json(inventory->gpus[static_cast<std::size_t>(*rank.gpu)], *rank.gpu);
  return {{"rank", rank.rank},
          {"local_rank", rank.local_rank},
          {"cross_rank", rank.cross_rank},
          {"cross_size", rank.cross_size},
          {"device", or_null(rank.device)},
          {"visible_devices", or_null(rank.visible_devices)},
          {"gpu", std::move(gpu)},
          {"cpus", rank.cpus},
          {"numa_nodes", rank.numa_nodes}};
}

Json host_json(const Host& host, const HostPlacement& placed) {
  Json ranks = Json::array();
  for (const auto& rank : placed.ranks) ranks.push_back(rank_json(host.inventory, rank));
  return {{"host", host.name},
          {"slots", or_null(host.slots)},
          {"slots_source", host.slots_source},
          {"gpu_source", host.inventory ? host.inventory->gpu_source : host.slurm.gpus_source},
          {"provisional", placed.is_provisional},
          {"ranks", std::move(ranks)}};
}

// With more hosts than this there is one row a kind of host, and not one a rank.
constexpr std::size_t kMostHostsInFull = 16;

// The hosts of a placement stand in the allocation's order, so the search goes on from the last.
const Host& find_host(const Allocation& allocation, const std::string& name, std::size_t& from) {
  while (from + 1 < allocation.hosts.size() && allocation.hosts[from].name != name) ++from;
  return allocation.hosts[from];
}

std::string describe_inventory(const HostInventory& inventory) {
  std::string text = fmt::format(", {}, {}", plural(inventory.cores.size(), "core"),
                                 plural(inventory.numa_nodes.size(), "NUMA node"));
  if (!inventory.topology_file.empty()) text += fmt::format(" from {}", inventory.topology_file);
  text += fmt::format(", {}", plural(inventory.gpus.size(), "GPU"));
  if (!inventory.gpu_source.empty()) text += fmt::format(" ({})", inventory.gpu_source);
  return text;
}

std::string describe_share(const SlurmShare& slurm) {
  std::string text;
  if (slurm.cpus) text += ", " + plural(*slurm.cpus, "CPU");
  if (slurm.gpus) text += fmt::format(", {} ({})", plural(*slurm.gpus, "GPU"), slurm.gpus_source);
  return text;
}

std::string describe_host(const Host& host) {
  std::string text = host.slots
                         ? fmt::format("{} ({})", plural(*host.slots, "slot"), host.slots_source)
                         : "slots " + host.slots_source;
  text += host.inventory ? describe_inventory(*host.inventory) : describe_share(host.slurm);
  if (!host.inventory && host.slots) text += ", not looked at yet";
  if (!host.user.empty()) text += ", as " + host.user;
  if (host.port) text += fmt::format(", port {}", *host.port);
  return text;
}

// One line for all neighbours of which the same is to be said.
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

// "GPU", "CPUS", "NUMA" of a rank.
TableRow devices_of(const RankPlacement& rank) {
  return {rank.device_name.empty() ? "-" : rank.device_name, folded(rank.cpus),
          folded(rank.numa_nodes)};
}

std::string print_rows(const std::vector<TableRow>& rows) {
  std::string text;
  for (const auto& line : table_lines(rows)) text += line + "\n";
  return text;
}

std::string print_ranks(const Placement& placement) {
  std::map<int, TableRow> by_rank;
  for (const auto& host : placement.hosts) {
    for (const auto& rank : host.ranks) {
      TableRow row{std::to_string(rank.rank), host.host, std::to_string(rank.local_rank)};
      for (auto& text : devices_of(rank)) row.push_back(std::move(text));
      by_rank.emplace(rank.rank, std::move(row));
    }
  }
  std::vector<TableRow> rows{{"RANK", "HOST", "LOCAL", "GPU", "CPUS", "NUMA"}};
  for (auto& [rank, row] : by_rank) rows.push_back(std::move(row));
  return print_rows(rows);
}

// Hosts on which local ranks have the same devices and cores.
struct Kind {
  std::vector<TableRow> rows;  // LOCAL, GPU, CPUS, NUMA
  std::vector<std::string> hosts;
  std::vector<int> ranks;
};

std::vector<Kind> kinds_of(const Placement& placement) {
  std::vector<Kind> kinds;
  std::map<std::vector<TableRow>, std::size_t> known;
  for (const auto& host : placement.hosts) {
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

// Whether anything is known of a kind's ranks beside their numbers.
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
  return fmt::format("{}, package {}, NUMA {}", plural(cores, "core"),
                     fold_ranks(std::vector<int>(packages.begin(), packages.end())),
                     fold_ranks(std::vector<int>(nodes.begin(), nodes.end())));
}

std::string say_binding(const Host& host, const RankPlacement& rank) {
  if (!host.inventory) return "not known before the host is asked";
  if (rank.cpus.empty()) return "not bound";
  return fmt::format("CPUs {} ({})", fold_ranks(rank.cpus),
                     describe_cores(*host.inventory, rank.cpus));
}

}  // namespace

std::string placement_json(const Allocation& allocation, const Placement& placement) {
  Json hosts = Json::array();
  // A placement's hosts stand in the allocation's order, some left out.
  auto host = allocation.hosts.begin();
  for (const auto& placed : placement.hosts) {
    while (host != allocation.hosts.end() && host->name != placed.host) ++host;
    if (host == allocation.hosts.end()) break;
    hosts.push_back(host_json(*host, placed));
  }
  const Json document = {{"source", allocation.source},   {"size", placement.size},
                         {"reasons", allocation.reasons}, {"notes", placement.notes},
                         {"to_ask", placement.to_ask},    {"hosts", std::move(hosts)}};
  // A CUDA_VISIBLE_DEVICES that is not UTF-8 must not stop the printing.
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string placement_table(const Allocation& allocation, const Placement& placement) {
  std::string text =
      placement.to_ask.empty()
          ? fmt::format("{} on {}", plural(placement.size, "rank"),
                        plural(placement.hosts.size(), "host"))
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

std::string bindings_line(const Host& host, const RankPlacement& rank) {
  std::string text =
      fmt::format("rank {} on {}: {}", rank.rank, host.name, say_binding(host, rank));
  if (!rank.device_name.empty()) text += ", " + rank.device_name;
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
