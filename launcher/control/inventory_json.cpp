#include "control/inventory_json.hpp"

#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using Json = nlohmann::json;

Json core_json(const Core& core) {
  return {{"package", core.package}, {"numa_node", core.numa_node}, {"pus", core.pus}};
}

Core core_of(const Json& json) {
  Core core;
  json.at("package").get_to(core.package);
  json.at("numa_node").get_to(core.numa_node);
  json.at("pus").get_to(core.pus);
  return core;
}

Json gpu_json(const Gpu& gpu) {
  return {{"visible", gpu.visible},
          {"uuid", gpu.uuid},
          {"pci_address", gpu.pci_address},
          {"name", gpu.name},
          {"memory_bytes", gpu.memory_bytes},
          {"numa_node", gpu.numa_node ? Json(*gpu.numa_node) : Json()}};
}

Gpu gpu_of(const Json& json) {
  Gpu gpu;
  json.at("visible").get_to(gpu.visible);
  json.at("uuid").get_to(gpu.uuid);
  json.at("pci_address").get_to(gpu.pci_address);
  json.at("name").get_to(gpu.name);
  json.at("memory_bytes").get_to(gpu.memory_bytes);
  if (const auto& node = json.at("numa_node"); !node.is_null()) gpu.numa_node = node.get<int>();
  return gpu;
}

}  // namespace

Json inventory_json(const HostInventory& inventory) {
  Json cores = Json::array();
  for (const auto& core : inventory.cores) cores.push_back(core_json(core));
  Json gpus = Json::array();
  for (const auto& gpu : inventory.gpus) gpus.push_back(gpu_json(gpu));
  return {{"cores", std::move(cores)},
          {"numa_nodes", inventory.numa_nodes},
          {"gpus", std::move(gpus)},
          {"gpus_need_list", inventory.gpus_need_list},
          {"gpu_source", inventory.gpu_source},
          {"topology_file", inventory.topology_file},
          {"notes", inventory.notes}};
}

HostInventory inventory_of(const Json& json) {
  HostInventory inventory;
  for (const auto& core : json.at("cores")) inventory.cores.push_back(core_of(core));
  json.at("numa_nodes").get_to(inventory.numa_nodes);
  for (const auto& gpu : json.at("gpus")) inventory.gpus.push_back(gpu_of(gpu));
  json.at("gpus_need_list").get_to(inventory.gpus_need_list);
  json.at("gpu_source").get_to(inventory.gpu_source);
  json.at("topology_file").get_to(inventory.topology_file);
  json.at("notes").get_to(inventory.notes);
  return inventory;
}

}  // namespace hvdrun
