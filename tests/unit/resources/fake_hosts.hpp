// Hosts for tests, with cores and GPUs spread evenly over NUMA nodes.
#pragma once

#include "model/placement.hpp"

#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

struct FakeHost {
  std::string name = "n1";
  int nodes = 1;
  int cores_per_node = 4;
  int threads = 1;
  std::vector<int> gpu_nodes;  // the NUMA node of each GPU; -1: unknown
  int slots = 0;               // 0: the number of GPUs, or without GPUs that of cores
  bool slots_fixed = false;
};

inline Host make_host(const FakeHost& made) {
  Host host;
  host.name = host.address = made.name;
  HostInventory inventory;
  const int cores = made.nodes * made.cores_per_node;
  for (int core = 0; core < cores; ++core) {
    Core described;
    described.package = described.numa_node = core / made.cores_per_node;
    for (int thread = 0; thread < made.threads; ++thread)
      described.pus.push_back(core + thread * cores);
    inventory.cores.push_back(described);
  }
  for (int node = 0; node < made.nodes; ++node) inventory.numa_nodes.push_back(node);
  for (const int node : made.gpu_nodes) {
    Gpu gpu;
    gpu.visible = std::to_string(inventory.gpus.size());
    if (node >= 0) gpu.numa_node = node;
    inventory.gpus.push_back(gpu);
  }
  const int gpus = static_cast<int>(made.gpu_nodes.size());
  host.slots = made.slots > 0 ? made.slots : gpus > 0 ? gpus : cores;
  host.slots_source = made.slots_fixed ? "-H" : gpus > 0 ? "GPUs" : "cores";
  host.slots_fixed = made.slots_fixed;
  if (gpus > 0) inventory.gpu_vendor = "NVIDIA";
  inventory.gpu_source = gpus > 0 ? "NVML" : "no NVIDIA driver";
  host.inventory = std::move(inventory);
  return host;
}

}  // namespace hvdrun
