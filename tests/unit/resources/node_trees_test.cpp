// Tests where ranks are bound on machines of many shapes, from a file of hwloc and a double of NVML
// to the placement.
#include "node_trees.hpp"

#include "../temporary_folder.hpp"
#include "common/text.hpp"
#include "gpus/nvidia/fake_nvml.hpp"
#include "gpus/nvidia/nvidia_gpus.hpp"
#include "resources/inventory.hpp"
#include "resources/place.hpp"
#include "resources/placement_table.hpp"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Two sockets with four nodes each. GPUs are on every second node, against their order.
const NodeTree kDgxA100{.name = "DGX A100",
                        .packages = 2,
                        .nodes = 4,
                        .caches = 4,
                        .cores = 4,
                        .threads = 2,
                        .gpu_nodes = {3, 3, 1, 1, 7, 7, 5, 5}};
const NodeTree kPolaris{.name = "Polaris",
                        .nodes = 4,
                        .caches = 2,
                        .cores = 4,
                        .threads = 2,
                        .gpu_nodes = {3, 2, 1, 0}};
// MI250X, with a half of a GPU beside each L3 cache. The first core of each is the system's.
const NodeTree kFrontier{.name = "Frontier",
                         .nodes = 4,
                         .caches = 2,
                         .cores = 8,
                         .threads = 2,
                         .gpu_nodes = {3, 3, 1, 1, 0, 0, 2, 2},
                         .reserves_first_cores = true};
const NodeTree kFrontierByCache{.name = "Frontier by L3",
                                .nodes = 4,
                                .caches = 2,
                                .cores = 8,
                                .threads = 2,
                                .gpu_caches = {6, 7, 2, 3, 0, 1, 4, 5},
                                .reserves_first_cores = true};
const NodeTree kGraceHopper{.name = "GH200 x 4",
                            .packages = 4,
                            .cores = 72,
                            .gpu_nodes = {0, 1, 2, 3},
                            .gpu_memory_nodes = 8};
const NodeTree kHybrid{.name = "hybrid", .cores = 16, .slow_cores = 8};
const NodeTree kNps4{
    .name = "NPS4", .packages = 2, .nodes = 4, .caches = 2, .cores = 8, .threads = 2};

const NodeTree kZoo[] = {
    kDgxA100,
    kPolaris,
    kFrontier,
    kFrontierByCache,
    kGraceHopper,
    kHybrid,
    kNps4,
    {.name = "GH200 x 4, GPU memory hidden", .packages = 4, .cores = 72, .gpu_nodes = {0, 1, 2, 3}},
    {.name = "GB200",
     .packages = 2,
     .cores = 72,
     .gpu_nodes = {0, 0, 1, 1},
     .gpu_memory_nodes = 16},
    {.name = "MI300A",
     .packages = 4,
     .caches = 3,
     .cores = 8,
     .threads = 2,
     .gpu_nodes = {0, 1, 2, 3}},
    {.name = "SNC4",
     .packages = 2,
     .nodes = 4,
     .cores = 15,
     .threads = 2,
     .gpu_nodes = {1, 0, 3, 2, 5, 4, 7, 6}},
    {.name = "SNC4 with fast memory",
     .packages = 2,
     .nodes = 4,
     .cores = 14,
     .has_fast_memory = true},
    {.name = "NPS2",
     .packages = 2,
     .nodes = 2,
     .caches = 4,
     .cores = 8,
     .gpu_nodes = {1, 1, 0, 0, 3, 3, 2, 2}},
    {.name = "KNL with nodes of fast memory",
     .nodes = 4,
     .caches = 0,
     .cores = 16,
     .threads = 4,
     .has_fast_memory = true},
    {.name = "one core"},
    {.name = "1024 cores", .packages = 2, .nodes = 8, .cores = 64},
    {.name = "no L3", .packages = 2, .caches = 0, .cores = 4, .gpu_nodes = {1, 0}},
    {.name = "a node without memory",
     .packages = 2,
     .cores = 4,
     .gpu_nodes = {1, 0},
     .memoryless_node = 1},
    {.name = "a container with one core",
     .packages = 2,
     .nodes = 4,
     .caches = 2,
     .cores = 4,
     .gpu_nodes = {3, 3},
     .allowed = {37}},
    {.name = "a container with parts of two nodes",
     .packages = 2,
     .nodes = 2,
     .cores = 8,
     .gpu_nodes = {2, 0, 3},
     .allowed = {1, 2, 3, 18, 19, 20, 21, 22}},
    {.name = "node 0 is offline", .packages = 2, .cores = 8, .gpu_nodes = {2, 1}, .first_node = 1},
    {.name = "a virtual machine", .packages = 0, .caches = 0, .cores = 6, .gpu_nodes = {0, 0}},
    {.name = "last core reserved",
     .nodes = 4,
     .caches = 2,
     .cores = 4,
     .gpu_caches = {7, 6, 5, 4, 3, 2, 1, 0},
     .allowed = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30}},
    {.name = "GPUs of a package",
     .packages = 2,
     .nodes = 4,
     .cores = 4,
     .gpu_nodes = {4, 4, 0, 0},
     .hides_gpu_places = true},
};

struct Placed {
  Allocation allocation;
  HostPlacement host;
  std::vector<std::string> notes;

  const HostInventory& inventory() const { return *allocation.hosts.front().inventory; }
};

HostInventory inventory_of(const NodeTree& tree) {
  const TemporaryFolder folder;
  const FakeNvml nvml(nvml_devices(tree));
  InventorySources sources;
  sources.gpu_vendors = {nvidia_gpus(HVD_NVML_DOUBLE)};
  sources.topology_file = folder.write("machine.xml", TreeFile(tree).text());
  auto inventory = local_inventory({}, sources);
  EXPECT_TRUE(inventory) << tree.name << ": " << inventory.error().message;
  return inventory ? *inventory : HostInventory{};
}

Placed place_on(HostInventory inventory, int ranks, BindTo bind_to,
                std::optional<int> cpus_per_rank = {}) {
  JobSpec spec;
  spec.ranks = ranks;
  spec.bind_to = bind_to;
  spec.cpus_per_rank = cpus_per_rank;
  spec.oversubscribe = true;
  Host host;
  host.name = "n1";
  host.slots = ranks;
  host.inventory = std::move(inventory);
  Placed placed{{}, {}, {}};
  placed.allocation.hosts = {host};
  const auto placement = place(spec, placed.allocation);
  EXPECT_TRUE(placement) << placement.error().message;
  if (!placement) return placed;
  placed.host = placement->hosts.front();
  placed.notes = placement->notes;
  return placed;
}

// Returns "CPUs@NUMA nodes" of each rank.
std::string brief(const Placed& placed) {
  std::string text;
  for (const auto& rank : placed.host.ranks)
    text += fmt::format("{}{}@{}", text.empty() ? "" : " ", common::fold_ranks(rank.cpus),
                        common::fold_ranks(rank.numa_nodes));
  return text;
}

std::string brief(const NodeTree& tree, int ranks, BindTo bind_to,
                  std::optional<int> cpus_per_rank = {}) {
  return brief(place_on(inventory_of(tree), ranks, bind_to, cpus_per_rank));
}

// Returns the cores that a rank is bound to, all if it is not.
std::vector<Core> cores_of(const Placed& placed, const RankPlacement& rank) {
  std::vector<Core> cores;
  for (const auto& core : placed.inventory().cores)
    if (rank.cpus.empty() || std::ranges::binary_search(rank.cpus, core.pus.front()))
      cores.push_back(core);
  return cores;
}

std::set<int> domains(const std::vector<Core>& cores, int Core::*domain) {
  std::set<int> numbers;
  for (const auto& core : cores) numbers.insert(core.*domain);
  return numbers;
}

const char* name_of(BindTo bind_to) {
  return bind_to == BindTo::core     ? "core"
         : bind_to == BindTo::numa   ? "numa"
         : bind_to == BindTo::socket ? "socket"
         : bind_to == BindTo::none   ? "none"
                                     : "auto";
}

// The numbers of ranks to try on a machine: all up to 18, and some more.
std::vector<int> numbers_of_ranks(const HostInventory& inventory) {
  const int cores = static_cast<int>(inventory.cores.size());
  std::set<int> numbers;
  for (int ranks = 1; ranks <= std::min(cores, 18); ++ranks) numbers.insert(ranks);
  constexpr int kLarge = 128;
  if (cores <= kLarge) numbers.insert({cores, std::max(cores / 2, 1)});
  return {numbers.begin(), numbers.end()};
}

void expect_own_equal_parts(const Placed& placed) {
  std::map<int, int> users;
  std::vector<std::size_t> sizes;
  for (const auto& rank : placed.host.ranks) {
    for (const int cpu : rank.cpus) ++users[cpu];
    sizes.push_back(cores_of(placed, rank).size());
  }
  EXPECT_TRUE(std::ranges::all_of(users, [](const auto& user) { return user.second == 1; }));
  const auto [least, most] = std::ranges::minmax(sizes);
  EXPECT_LE(most, least + 1);
}

// The memory of a rank comes from the nodes of its cores, if these are not those of all ranks.
void expect_memory_of_own_nodes(const NodeTree& tree, const Placed& placed) {
  const auto all = domains(placed.inventory().cores, &Core::numa_node);
  for (const auto& rank : placed.host.ranks) {
    auto own = domains(cores_of(placed, rank), &Core::numa_node);
    if (own == all) own.clear();
    own.erase(tree.memoryless_node);
    EXPECT_EQ(std::set<int>(rank.numa_nodes.begin(), rank.numa_nodes.end()), own);
  }
}

// A rank is in its GPU's node, or in the package, as far as the node has cores and is known.
void expect_near_gpu(const NodeTree& tree, const Placed& placed, int Core::*domain) {
  for (const auto& rank : placed.host.ranks) {
    if (rank.cpus.empty() || !rank.gpu || tree.hides_gpu_places) continue;
    const int node = tree.node_of_gpu(static_cast<std::size_t>(*rank.gpu));
    std::set<int> wanted;
    for (const auto& core : placed.inventory().cores)
      if (core.numa_node == node) wanted.insert(core.*domain);
    if (wanted.empty()) continue;
    EXPECT_EQ(domains(cores_of(placed, rank), domain), wanted);
  }
}

TEST(NodeTrees, ReadsTheNodesThatHaveCores) {
  for (const auto& tree : kZoo) {
    SCOPED_TRACE(tree.name);
    const auto inventory = inventory_of(tree);
    std::size_t next = 0;
    for (int core = 0; core < tree.cores_in_all(); ++core) {
      if (!tree.allows(core)) continue;
      ASSERT_LT(next, inventory.cores.size());
      const Core& read = inventory.cores[next++];
      EXPECT_EQ(read.pus.front(), core);
      EXPECT_EQ(read.pus.size(), static_cast<std::size_t>(tree.threads));
      EXPECT_EQ(read.numa_node, tree.first_node + core / tree.cores_of_node());
      EXPECT_EQ(read.package, core / tree.cores_of_node() / tree.nodes);
      EXPECT_EQ(read.l3_cache, tree.caches == 0 ? -1 : core / tree.cores);
      EXPECT_EQ(read.kind, core < tree.cores_in_all() - tree.slow_cores ? 0 : 1);
    }
    EXPECT_EQ(next, inventory.cores.size());
    auto nodes = domains(inventory.cores, &Core::numa_node);
    nodes.erase(tree.memoryless_node);
    EXPECT_EQ(std::set<int>(inventory.numa_nodes.begin(), inventory.numa_nodes.end()), nodes);
  }
}

// Reads the folders /sys and /proc of another machine, as on a running one.
TEST(NodeTrees, ReadsTheSameFromTheSystemAsFromAFile) {
  for (const auto& tree : kZoo) {
    if (tree.reserves_first_cores || !tree.allowed.empty() || tree.packages == 0 ||
        tree.hides_gpu_places || tree.cores_in_all() * tree.threads > 160)
      continue;
    SCOPED_TRACE(tree.name);
    const TemporaryFolder root;
    const TreeFolders folders(tree, root);
    const FakeNvml nvml(nvml_devices(tree));
    InventorySources sources;
    sources.gpu_vendors = {nvidia_gpus(HVD_NVML_DOUBLE)};
    sources.sysfs = root.path() / "sys";
    ::setenv("HWLOC_FSROOT", root.path().c_str(), 1);
    const auto read = local_inventory({{"HWLOC_FSROOT", root.path().string()}}, sources);
    ::unsetenv("HWLOC_FSROOT");
    ASSERT_TRUE(read) << read.error().message;
    const auto expected = inventory_of(tree);
    ASSERT_EQ(read->cores.size(), expected.cores.size());
    for (std::size_t i = 0; i < read->cores.size(); ++i) {
      EXPECT_EQ(read->cores[i].pus, expected.cores[i].pus);
      EXPECT_EQ(read->cores[i].package, expected.cores[i].package);
      EXPECT_EQ(read->cores[i].numa_node, expected.cores[i].numa_node);
      EXPECT_EQ(read->cores[i].l3_cache, expected.cores[i].l3_cache);
      EXPECT_EQ(read->cores[i].kind, expected.cores[i].kind);
    }
    EXPECT_EQ(read->numa_nodes, expected.numa_nodes);
    for (std::size_t gpu = 0; gpu < tree.gpus(); ++gpu) {
      EXPECT_EQ(read->gpus.at(gpu).numa_node, expected.gpus.at(gpu).numa_node);
      EXPECT_EQ(read->gpus[gpu].near_cpus, expected.gpus[gpu].near_cpus);
    }
  }
}

TEST(NodeTrees, BindsRanksNearTheirGpusWhateverTheTree) {
  for (const auto& tree : kZoo) {
    const auto inventory = inventory_of(tree);
    for (const int ranks : numbers_of_ranks(inventory))
      for (const auto bind_to :
           {BindTo::automatic, BindTo::core, BindTo::numa, BindTo::socket, BindTo::none}) {
        SCOPED_TRACE(fmt::format("{}, {} ranks, --bind-to {}", tree.name, ranks, name_of(bind_to)));
        const auto placed = place_on(inventory, ranks, bind_to);
        expect_memory_of_own_nodes(tree, placed);
        if (bind_to == BindTo::automatic) expect_own_equal_parts(placed);
        if (bind_to == BindTo::numa) expect_near_gpu(tree, placed, &Core::numa_node);
        if (bind_to == BindTo::socket) expect_near_gpu(tree, placed, &Core::package);
        if (bind_to == BindTo::none) {
          EXPECT_TRUE(placed.host.ranks.front().cpus.empty());
        }
      }
  }
}

// With as many ranks as GPUs, each node with a GPU has at least as many cores as ranks.
TEST(NodeTrees, KeepsCoreToTheNodeOfTheGpu) {
  for (const auto& tree : kZoo) {
    if (tree.gpus() == 0 || tree.hides_gpu_places || !tree.allowed.empty()) continue;
    const auto inventory = inventory_of(tree);
    for (int ranks = 1; ranks <= static_cast<int>(tree.gpus()); ++ranks) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", tree.name, ranks));
      expect_near_gpu(tree, place_on(inventory, ranks, BindTo::core), &Core::numa_node);
    }
  }
}

TEST(NodeTrees, DividesNodesByL3Caches) {
  for (const auto& tree : kZoo) {
    if (tree.gpus() > 0 || !tree.allowed.empty()) continue;
    const auto inventory = inventory_of(tree);
    const auto caches = domains(inventory.cores, &Core::l3_cache).size();
    for (const int count : numbers_of_ranks(inventory)) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", tree.name, count));
      const auto ranks = static_cast<std::size_t>(count);
      const auto placed = place_on(inventory, count, BindTo::automatic);
      std::map<int, std::size_t> sharing;
      for (const auto& rank : placed.host.ranks) {
        const auto own = domains(cores_of(placed, rank), &Core::l3_cache);
        for (const int cache : own) ++sharing[cache];
        EXPECT_TRUE(own.size() == 1 || ranks % caches != 0);
      }
      for (const auto& [cache, sharers] : sharing)
        EXPECT_TRUE(sharers == 1 || caches % ranks != 0) << cache;
    }
  }
}

TEST(NodeTrees, GivesEachOfManyRanksItsCore) {
  for (const auto& tree : kZoo) {
    if (std::string(tree.name) != "1024 cores") continue;
    const auto placed = place_on(inventory_of(tree), 1024, BindTo::automatic);
    std::set<int> cpus;
    for (const auto& rank : placed.host.ranks) cpus.insert(rank.cpus.begin(), rank.cpus.end());
    EXPECT_EQ(cpus.size(), 1024u);
    EXPECT_EQ(placed.host.ranks.back().cpus, std::vector{1023});
    EXPECT_EQ(placed.host.ranks.back().numa_nodes, std::vector{15});
  }
}

TEST(NodeTrees, PutsRanksBesideTheirHalvesOfMi250x) {
  const char* const expected =
      "49-55,113-119@3 57-63,121-127@3 17-23,81-87@1 25-31,89-95@1 1-7,65-71@0 9-15,73-79@0 "
      "33-39,97-103@2 41-47,105-111@2";
  for (const auto bind_to : {BindTo::automatic, BindTo::core}) {
    EXPECT_EQ(brief(kFrontier, 8, bind_to), expected);
    EXPECT_EQ(brief(kFrontierByCache, 8, bind_to), expected);
  }
  NodeTree turned = kFrontierByCache;
  turned.gpu_caches = {7, 6, 3, 2, 1, 0, 5, 4};
  EXPECT_EQ(brief(turned, 8, BindTo::core),
            "57-63,121-127@3 49-55,113-119@3 25-31,89-95@1 17-23,81-87@1 9-15,73-79@0 1-7,65-71@0 "
            "41-47,105-111@2 33-39,97-103@2");
  EXPECT_EQ(brief(kFrontier, 2, BindTo::numa),
            "49-55,57-63,113-119,121-127@3 49-55,57-63,113-119,121-127@3");
}

TEST(NodeTrees, FollowsGpusAgainstTheOrderOfNodes) {
  EXPECT_EQ(brief(kPolaris, 4, BindTo::automatic),
            "24-31,56-63@3 16-23,48-55@2 8-15,40-47@1 0-7,32-39@0");
  EXPECT_EQ(brief(kPolaris, 4, BindTo::numa),
            "24-31,56-63@3 16-23,48-55@2 8-15,40-47@1 0-7,32-39@0");
  EXPECT_EQ(brief(kDgxA100, 8, BindTo::core),
            "48-55,176-183@3 56-63,184-191@3 16-23,144-151@1 24-31,152-159@1 112-119,240-247@7 "
            "120-127,248-255@7 80-87,208-215@5 88-95,216-223@5");
}

TEST(NodeTrees, TakesTheRestFromTheGpusPackage) {
  EXPECT_EQ(brief(kDgxA100, 8, BindTo::automatic),
            "32-39,48-55,160-167,176-183@2-3 40-47,56-63,168-175,184-191@2-3 "
            "0-7,16-23,128-135,144-151@0-1 8-15,24-31,136-143,152-159@0-1 "
            "96-103,112-119,224-231,240-247@6-7 104-111,120-127,232-239,248-255@6-7 "
            "64-71,80-87,192-199,208-215@4-5 72-79,88-95,200-207,216-223@4-5");
}

TEST(NodeTrees, IgnoresNodesOfGpuMemory) {
  EXPECT_EQ(brief(kGraceHopper, 4, BindTo::automatic), "0-71@0 72-143@1 144-215@2 216-287@3");
  EXPECT_EQ(brief(kGraceHopper, 4, BindTo::numa), "0-71@0 72-143@1 144-215@2 216-287@3");
  EXPECT_EQ(inventory_of(kGraceHopper).numa_nodes, (std::vector{0, 1, 2, 3}));
}

TEST(NodeTrees, SpreadsRanksWithoutGpusOverNodes) {
  EXPECT_EQ(brief(kNps4, 8, BindTo::numa),
            "0-15,128-143@0 16-31,144-159@1 32-47,160-175@2 48-63,176-191@3 64-79,192-207@4 "
            "80-95,208-223@5 96-111,224-239@6 112-127,240-255@7");
  EXPECT_EQ(brief(kNps4, 2, BindTo::socket), "0-63,128-191@0-3 64-127,192-255@4-7");
  EXPECT_EQ(brief(kNps4, 4, BindTo::core, 2),
            "0-1,128-129@0 32-33,160-161@2 64-65,192-193@4 96-97,224-225@6");
}

TEST(NodeTrees, GivesEachRankFastCores) {
  EXPECT_EQ(brief(kHybrid, 2, BindTo::automatic), "0-3,8-11@ 4-7,12-15@");
  EXPECT_EQ(brief(kHybrid, 4, BindTo::core, 2), "0-1@ 2-3@ 4-5@ 6-7@");
  EXPECT_EQ(brief(kHybrid, 3, BindTo::core), "0-2,8-10@ 3-5,11-12@ 6-7,13-15@");
  const auto placed = place_on(inventory_of(kHybrid), 12, BindTo::automatic);
  EXPECT_EQ(placed.notes,
            std::vector<std::string>{
                "n1: 4 of 12 ranks have slow cores only (8 fast, 8 slow), and the others wait for "
                "them; with --ranks-per-host 8 each rank has a fast one"});
}

TEST(NodeTrees, MovesTheOddCoreToTheRankBesideIt) {
  for (const auto& tree : kZoo) {
    if (std::string(tree.name) != "last core reserved") continue;
    EXPECT_EQ(brief(tree, 8, BindTo::automatic),
              "28-30@3 24-27@3 20-23@2 16-19@2 12-15@1 8-11@1 4-7@0 0-3@0");
  }
}

TEST(NodeTrees, NamesL3CachesAndFastCores) {
  const auto show = [](const NodeTree& tree, int ranks) {
    auto placed = place_on(inventory_of(tree), ranks, BindTo::automatic);
    Placement placement;
    placement.size = ranks;
    placement.hosts = {placed.host};
    for (int rank = 0; rank < ranks; ++rank)
      placement.hosts[0].ranks[static_cast<std::size_t>(rank)].rank = rank;
    placed.allocation.hosts[0].inventory->topology_file.clear();
    return placement_table(placed.allocation, placement).substr(0, 400) +
           bindings_lines(placed.allocation, placement).front();
  };
  const auto frontier = show(kFrontier, 8);
  EXPECT_NE(frontier.find(", 56 cores, 4 NUMA nodes, 8 L3 caches, 8 GPUs"), std::string::npos)
      << frontier;
  EXPECT_NE(frontier.find("(7 cores, package 0, NUMA 3, L3 6)"), std::string::npos) << frontier;
  const auto hybrid = show(kHybrid, 2);
  EXPECT_NE(hybrid.find(", 16 cores (8 of them fast), 1 NUMA node"), std::string::npos) << hybrid;
  EXPECT_NE(hybrid.find("(8 cores (4 of them fast), package 0, NUMA 0)"), std::string::npos)
      << hybrid;
}

}  // namespace
}  // namespace hvdrun
