#include "resources/placement_json.hpp"

#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace hvdrun {
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
          {"gpu_source", host.inventory ? host.inventory->gpu_source : host.share.gpus_source},
          {"provisional", placed.is_provisional},
          {"ranks", std::move(ranks)}};
}

}  // namespace

std::string placement_json(const Allocation& allocation, const Placement& placement) {
  Json hosts = Json::array();
  // A placement's hosts are in the allocation's order, but some may be missing.
  auto host = allocation.hosts.begin();
  for (const auto& placed : placement.hosts) {
    while (host != allocation.hosts.end() && host->name != placed.host) ++host;
    if (host == allocation.hosts.end()) break;
    hosts.push_back(host_json(*host, placed));
  }
  const Json document = {{"source", allocation.source},   {"size", placement.size},
                         {"reasons", allocation.reasons}, {"notes", placement.notes},
                         {"to_ask", placement.to_ask},    {"hosts", std::move(hosts)}};
  // A user's list of GPUs that is not UTF-8 must not stop the printing.
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hvdrun
