// Machines for tests, as hwloc's files of them that lstopo(1) writes, and as the folders of /sys
// and /proc that hwloc reads where HWLOC_FSROOT says. A machine is described by its packages, NUMA
// nodes, L3 caches and cores, which are numbered in this order.
#pragma once

#include "../temporary_folder.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {

struct NodeTree {
  const char* name;
  int packages = 1;  // 0: a virtual machine that shows none
  int nodes = 1;     // in each package
  int caches = 1;    // L3 caches of each node; 0: none
  int cores = 1;     // of each L3 cache, or without one of each node
  int threads = 1;
  std::vector<int> gpu_nodes = {};    // the number of the NUMA node beside each GPU
  std::vector<int> gpu_caches = {};   // instead: the number of the L3 cache beside each GPU
  bool reserves_first_cores = false;  // of each L3 cache, for the system
  std::vector<int> allowed = {};      // cores; empty: all
  int first_node = 0;                 // the nodes before it are offline
  int memoryless_node = -1;
  int gpu_memory_nodes = 0;       // beside each package, without cores; hwloc < 2.11 hides them
  bool has_fast_memory = false;   // a second node beside each node
  int slow_cores = 0;             // the last ones are of a slower kind
  bool hides_gpu_places = false;  // a GPU is only known to be in a package, by gpu_nodes

  int nodes_in_all() const { return std::max(packages, 1) * nodes; }
  int cores_of_node() const { return std::max(caches, 1) * cores; }
  int cores_in_all() const { return nodes_in_all() * cores_of_node(); }
  std::size_t gpus() const { return std::max(gpu_nodes.size(), gpu_caches.size()); }
  // Returns the node of a GPU.
  int node_of_gpu(std::size_t gpu) const {
    return gpu_caches.empty() ? gpu_nodes[gpu] : first_node + gpu_caches[gpu] / caches;
  }
  bool allows(int core) const {
    if (reserves_first_cores && core % cores == 0) return false;
    return allowed.empty() || std::ranges::find(allowed, core) != allowed.end();
  }
};

inline std::string pci_address(std::size_t gpu) {
  return fmt::format("0000:{:02x}:00.0", 16 + gpu);
}

// Returns the devices as the double of NVML reads them (nvml_double.cpp).
inline std::string nvml_devices(const NodeTree& tree) {
  std::string devices;
  for (std::size_t gpu = 0; gpu < tree.gpus(); ++gpu)
    devices += fmt::format("GPU-{},{},NVIDIA X,80000000000;", gpu, pci_address(gpu));
  return devices;
}

// Returns words of 32 bits, the highest first: "0x00000001,0xffffffff".
inline std::string bit_mask(const std::set<int>& bits, const char* prefix = "") {
  constexpr int kWord = 32;
  const int highest = bits.empty() ? 0 : *bits.rbegin();
  std::vector<std::uint32_t> words(static_cast<std::size_t>(highest / kWord + 1));
  for (const int bit : bits) words[static_cast<std::size_t>(bit / kWord)] |= 1u << (bit % kWord);
  std::string text;
  for (std::size_t i = words.size(); i-- > 0;)
    text += fmt::format("{}{}{:08x}", text.empty() ? "" : ",", prefix, words[i]);
  return text;
}

// Writes a tree as a file of hwloc 2.
class TreeFile {
 public:
  explicit TreeFile(const NodeTree& tree) : tree_(tree) {}

  std::string text() {
    std::vector<int> all;
    std::vector<int> allowed;
    for (int core = 0; core < tree_.cores_in_all(); ++core) {
      all.push_back(core);
      if (tree_.allows(core)) allowed.push_back(core);
    }
    std::set<int> nodes;
    for (int i = 0; i < tree_.nodes_in_all(); ++i) nodes.merge(nodes_beside(i));
    nodes.merge(gpu_memory(0, tree_.packages));
    open("Machine", all, nodes, "os_index=\"0\"",
         fmt::format(" allowed_cpuset=\"{}\" allowed_nodeset=\"{}\"", cpus_of(allowed),
                     mask(nodes)));
    for (int package = 0; package < std::max(tree_.packages, 1); ++package) add_package(package);
    text_ += "</object>\n";
    add_kinds();
    return "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
           "<topology version=\"2.0\">\n" +
           text_ + "</topology>\n";
  }

 private:
  static std::string mask(const std::set<int>& bits) { return bit_mask(bits, "0x"); }

  // Returns the CPUs of the cores. The second threads have the numbers after all first ones.
  std::string cpus_of(const std::vector<int>& cores) const {
    std::set<int> cpus;
    for (const int core : cores)
      for (int thread = 0; thread < tree_.threads; ++thread)
        cpus.insert(core + thread * tree_.cores_in_all());
    return mask(cpus);
  }

  static std::vector<int> numbers(int first, int count) {
    std::vector<int> list;
    for (int i = 0; i < count; ++i) list.push_back(first + i);
    return list;
  }

  int all_nodes() const { return tree_.first_node + tree_.nodes_in_all(); }

  // Returns the number of a node of cores, and of its fast memory.
  std::set<int> nodes_beside(int index) const {
    std::set<int> nodes{tree_.first_node + index};
    if (tree_.has_fast_memory) nodes.insert(all_nodes() + index);
    return nodes;
  }

  std::set<int> gpu_memory(int package, int packages) const {
    std::set<int> nodes;
    for (int i = 0; i < packages * tree_.gpu_memory_nodes; ++i)
      nodes.insert(all_nodes() + package * tree_.gpu_memory_nodes + i);
    return nodes;
  }

  void open(const char* type, const std::vector<int>& cores, const std::set<int>& nodes,
            const std::string& attributes, const std::string& more = "", bool is_leaf = false) {
    const auto cpus = cpus_of(cores);
    open_cpus(type, cpus, nodes, attributes, more, is_leaf);
  }

  void open_cpus(const char* type, const std::string& cpus, const std::set<int>& nodes,
                 const std::string& attributes, const std::string& more, bool is_leaf) {
    text_ += fmt::format(
        "<object type=\"{}\" {} cpuset=\"{}\" complete_cpuset=\"{}\" nodeset=\"{}\" "
        "complete_nodeset=\"{}\" gp_index=\"{}\"{}{}>\n",
        type, attributes, cpus, cpus, mask(nodes), mask(nodes), ++index_, more, is_leaf ? "/" : "");
  }

  void add_memory(int node, const std::vector<int>& cores, const char* subtype) {
    const long long bytes = node == tree_.memoryless_node ? 0 : 1LL << 36;
    open("NUMANode", cores, {node}, fmt::format("os_index=\"{}\"", node),
         fmt::format("{} local_memory=\"{}\"",
                     *subtype == '\0' ? "" : fmt::format(" subtype=\"{}\"", subtype), bytes),
         true);
  }

  void add_package(int package) {
    const int cores = tree_.nodes * tree_.cores_of_node();
    const auto own = numbers(package * cores, cores);
    auto nodes = gpu_memory(package, 1);
    for (int i = 0; i < tree_.nodes; ++i) nodes.merge(nodes_beside(package * tree_.nodes + i));
    if (tree_.packages > 0) open("Package", own, nodes, fmt::format("os_index=\"{}\"", package));
    for (const int node : gpu_memory(package, 1)) add_memory(node, own, "GPUMemory");
    for (int i = 0; i < tree_.nodes; ++i) add_node(package * tree_.nodes + i, nodes);
    if (tree_.hides_gpu_places)
      for (std::size_t gpu = 0; gpu < tree_.gpus(); ++gpu)
        if ((tree_.node_of_gpu(gpu) - tree_.first_node) / tree_.nodes == package) add_gpu(gpu);
    if (tree_.packages > 0) text_ += "</object>\n";
  }

  void add_node(int index, const std::set<int>& of_package) {
    const auto own = numbers(index * tree_.cores_of_node(), tree_.cores_of_node());
    const bool has_group = tree_.nodes > 1;
    const auto nodes = has_group ? nodes_beside(index) : of_package;
    const int number = tree_.first_node + index;
    if (has_group) open("Group", own, nodes, "kind=\"1001\" subkind=\"0\"");
    add_memory(number, own, "");
    if (tree_.has_fast_memory) add_memory(all_nodes() + index, own, "MCDRAM");
    for (int i = 0; i < std::max(tree_.caches, 1); ++i)
      add_cache(index * std::max(tree_.caches, 1) + i, nodes);
    if (!tree_.hides_gpu_places && tree_.gpu_caches.empty())
      for (std::size_t gpu = 0; gpu < tree_.gpus(); ++gpu)
        if (tree_.gpu_nodes[gpu] == number) add_gpu(gpu);
    if (has_group) text_ += "</object>\n";
  }

  void add_cache(int index, const std::set<int>& nodes) {
    const auto own = numbers(index * tree_.cores, tree_.cores);
    if (tree_.caches > 0)
      open("L3Cache", own, nodes,
           "cache_size=\"33554432\" depth=\"3\" cache_linesize=\"64\" "
           "cache_associativity=\"16\" cache_type=\"0\"");
    for (const int core : own) {
      open("Core", {core}, nodes, fmt::format("os_index=\"{}\"", core));
      for (int thread = 0; thread < tree_.threads; ++thread) {
        const int cpu = core + thread * tree_.cores_in_all();
        open_cpus("PU", mask({cpu}), nodes, fmt::format("os_index=\"{}\"", cpu), "", true);
      }
      text_ += "</object>\n";
    }
    for (std::size_t gpu = 0; gpu < tree_.gpu_caches.size(); ++gpu)
      if (tree_.gpu_caches[gpu] == index) add_gpu(gpu);
    if (tree_.caches > 0) text_ += "</object>\n";
  }

  void add_gpu(std::size_t gpu) {
    const int bus = 16 + static_cast<int>(gpu);
    index_ += 2;
    text_ += fmt::format(
        "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" "
        "bridge_pci=\"0000:[{:02x}-{:02x}]\"><object type=\"PCIDev\" gp_index=\"{}\" "
        "pci_busid=\"{}\" pci_type=\"0302 [10de:2335] [10de:18be] a1\" pci_link_speed=\"1.0\"/>"
        "</object>\n",
        index_ - 1, bus, bus, index_, pci_address(gpu));
  }

  void add_kinds() {
    if (tree_.slow_cores == 0) return;
    const int fast = tree_.cores_in_all() - tree_.slow_cores;
    const auto kind = [&](const std::vector<int>& cores, const char* type, int speed) {
      text_ += fmt::format(
          "<cpukind cpuset=\"{}\"><info name=\"CoreType\" value=\"{}\"/>"
          "<info name=\"FrequencyMaxMHz\" value=\"{}\"/></cpukind>\n",
          cpus_of(cores), type, speed);
    };
    kind(numbers(fast, tree_.slow_cores), "IntelAtom", 3800);
    kind(numbers(0, fast), "IntelCore", 5100);
  }

  const NodeTree& tree_;
  std::string text_;
  int index_ = 0;
};

// Writes the tree as folders sys/ and proc/. All CPUs are allowed.
class TreeFolders {
 public:
  TreeFolders(const NodeTree& tree, const test_tools::TemporaryFolder& root)
      : tree_(tree), root_(root) {
    const int all = tree.cores_in_all();
    for (const char* file : {"online", "possible", "present"})
      root.write(fmt::format("sys/devices/system/cpu/{}", file), list(cpus_of(0, all)));
    std::string cpuinfo;
    for (const int cpu : cpus_of(0, all)) {
      add_cpu(cpu);
      cpuinfo += fmt::format("processor\t: {}\n\n", cpu);
    }
    add_nodes();
    if (tree.slow_cores > 0)
      root.write("sys/devices/cpu_atom/cpus",
                 list(cpus_of(all - tree.slow_cores, tree.slow_cores)));
    for (std::size_t gpu = 0; gpu < tree.gpus(); ++gpu) add_gpu(gpu);
    root.write("proc/cpuinfo", cpuinfo);
    root.write("proc/mounts", "");
    root.write("proc/meminfo", "MemTotal: 1000000000 kB\n");
  }

 private:
  std::set<int> cpus_of(int first, int cores) const {
    std::set<int> cpus;
    for (int core = first; core < first + cores; ++core)
      for (int thread = 0; thread < tree_.threads; ++thread)
        cpus.insert(core + thread * tree_.cores_in_all());
    return cpus;
  }

  static std::string list(const std::set<int>& cpus) {
    return common::fold_ranks(std::vector<int>(cpus.begin(), cpus.end())) + "\n";
  }

  void add_cpu(int cpu) {
    const int core = cpu % tree_.cores_in_all();
    const int of_package = tree_.nodes * tree_.cores_of_node();
    const int package = core / of_package;
    const auto folder = fmt::format("sys/devices/system/cpu/cpu{}/", cpu);
    root_.write(folder + "topology/physical_package_id", fmt::format("{}\n", package));
    root_.write(folder + "topology/core_id", fmt::format("{}\n", core));
    for (const char* file : {"thread_siblings", "core_cpus"})
      root_.write(folder + "topology/" + file, bit_mask(cpus_of(core, 1)) + "\n");
    for (const char* file : {"core_siblings", "package_cpus"})
      root_.write(folder + "topology/" + file,
                  bit_mask(cpus_of(package * of_package, of_package)) + "\n");
    if (tree_.caches == 0) return;
    const auto sharing = cpus_of(core - core % tree_.cores, tree_.cores);
    root_.write(folder + "cache/index0/shared_cpu_map", bit_mask(sharing) + "\n");
    if (cpu != *sharing.begin()) return;
    root_.write(folder + "cache/index0/level", "3\n");
    root_.write(folder + "cache/index0/type", "Unified\n");
  }

  std::set<int> cpus_of_node(int node) const {
    return cpus_of((node - tree_.first_node) * tree_.cores_of_node(), tree_.cores_of_node());
  }

  void add_nodes() {
    std::set<int> nodes;
    for (int i = 0; i < tree_.nodes_in_all(); ++i) nodes.insert(tree_.first_node + i);
    for (const int node : nodes) {
      const auto folder = fmt::format("sys/devices/system/node/node{}/", node);
      root_.write(folder + "cpumap", bit_mask(cpus_of_node(node)) + "\n");
      root_.write(folder + "meminfo", fmt::format("Node {} MemTotal: {} kB\n", node,
                                                  node == tree_.memoryless_node ? 0 : 131000000));
    }
    for (const char* file : {"online", "possible"})
      root_.write(fmt::format("sys/devices/system/node/{}", file), list(nodes));
  }

  void add_gpu(std::size_t gpu) {
    const auto device = "sys/bus/pci/devices/" + pci_address(gpu);
    const int node = tree_.node_of_gpu(gpu);
    root_.write(device + "/numa_node", fmt::format("{}\n", node));
    root_.write(
        device + "/local_cpulist",
        list(tree_.gpu_caches.empty() ? cpus_of_node(node)
                                      : cpus_of(tree_.gpu_caches[gpu] * tree_.cores, tree_.cores)));
  }

  const NodeTree& tree_;
  const test_tools::TemporaryFolder& root_;
};

}  // namespace hvdrun
