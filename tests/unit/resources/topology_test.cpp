#include "resources/topology.hpp"

#include "../temporary_folder.hpp"

#include <cstdlib>
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace hvdrun {
namespace {

std::set<int> pus_of(const Topology& topology) {
  std::set<int> pus;
  for (const auto& core : topology.cores) pus.insert(core.pus.begin(), core.pus.end());
  return pus;
}

std::set<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::set<int> pus;
  for (int pu = 0; pu < CPU_SETSIZE; ++pu)
    if (CPU_ISSET(pu, &set)) pus.insert(pu);
  return pus;
}

// Restores the calling thread's affinity.
class KeepAffinity {
 public:
  KeepAffinity() { ::sched_getaffinity(0, sizeof set_, &set_); }
  ~KeepAffinity() { ::sched_setaffinity(0, sizeof set_, &set_); }
  KeepAffinity(const KeepAffinity&) = delete;
  KeepAffinity& operator=(const KeepAffinity&) = delete;

 private:
  cpu_set_t set_;
};

TEST(LiveTopology, HoldsTheCoresThatTheProcessMayUse) {
  const auto topology = live_topology();
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(pus_of(*topology), affinity());
  EXPECT_FALSE(topology->numa_nodes.empty());
  for (const auto& core : topology->cores) EXPECT_FALSE(core.pus.empty());
}

TEST(LiveTopology, FollowsAReducedAffinity) {
  const KeepAffinity keep;
  const int last = *affinity().rbegin();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);

  const auto topology = live_topology();
  ASSERT_TRUE(topology) << topology.error().message;
  ASSERT_EQ(topology->cores.size(), 1u);
  EXPECT_EQ(topology->cores[0].pus, std::vector<int>{last});
}

TEST(LiveTopology, DoesNotChangeAffinityOrEnvironment) {
  const auto before = affinity();
  ::unsetenv("HWLOC_PLUGINS_PATH");
  ASSERT_TRUE(live_topology());
  EXPECT_EQ(std::getenv("HWLOC_PLUGINS_PATH"), nullptr);
  EXPECT_EQ(affinity(), before);

  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent/theirs", 1);
  ASSERT_TRUE(live_topology());
  EXPECT_STREQ(std::getenv("HWLOC_PLUGINS_PATH"), "/nonexistent/theirs");
  ::unsetenv("HWLOC_PLUGINS_PATH");
}

TEST(TopologyFromFile, ReadsCoresNodesAndPciDevices) {
  const auto topology = topology_from_file(HVD_TEST_TOPOLOGY);
  ASSERT_TRUE(topology) << topology.error().message;
  ASSERT_EQ(topology->cores.size(), 64u);
  EXPECT_EQ(topology->cores[0].pus, (std::vector<int>{0, 64}));
  EXPECT_EQ(topology->cores[31].numa_node, 0);
  EXPECT_EQ(topology->cores[32].pus, (std::vector<int>{32, 96}));
  EXPECT_EQ(topology->cores[32].package, 1);
  EXPECT_EQ(topology->cores[63].numa_node, 1);
  EXPECT_EQ(topology->numa_nodes, (std::vector<int>{0, 1}));
  EXPECT_EQ(topology->cores[0].l3_cache, -1);
  const std::map<std::string, int> devices = {
      {"0000:17:00.0", 0}, {"0000:2a:00.0", 0}, {"0000:3d:00.0", 0}, {"0000:5d:00.0", 0},
      {"0000:9a:00.0", 1}, {"0000:ab:00.0", 1}, {"0000:ba:00.0", 1}, {"0000:db:00.0", 1}};
  ASSERT_EQ(topology->pci_devices.size(), devices.size());
  for (const auto& [address, near] : topology->pci_devices) {
    EXPECT_EQ(near.numa_node, devices.at(address));
    EXPECT_TRUE(near.cpus.empty());
  }
}

TEST(TopologyFromFile, ReportsMissingAndInvalidFiles) {
  const TemporaryFolder folder;
  const auto missing = topology_from_file(folder.path() / "none.xml");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("none.xml: No such file"), std::string::npos)
      << missing.error().message;
  EXPECT_EQ(missing.error().exit_code, kExitUsage);

  for (const char* text : {"", "not xml", "<topology version=\"2.0\"><object"}) {
    const auto file = folder.path() / "bad.xml";
    std::ofstream(file) << text;
    const auto bad = topology_from_file(file);
    ASSERT_FALSE(bad) << text;
    EXPECT_NE(bad.error().message.find("bad.xml: not an hwloc topology"), std::string::npos)
        << bad.error().message;
  }
}

TEST(PciLocality, FollowsWhatSysfsKnows) {
  const TemporaryFolder sysfs;
  const std::string folder = "bus/pci/devices/0000:3b:00.0/";
  const std::vector<Core> cores = {{0, 0, {0}}, {0, 0, {1}}, {0, 1, {2}}, {0, 1, {3}}};
  struct Case {
    const char* what;
    const char* node;
    const char* cpus;
    std::optional<int> expected_node;
    std::vector<int> expected_cpus;
  };
  const Case cases[] = {
      {"a node", "1", "2-3", 1, {}},
      {"no list", "1", "", 1, {}},
      {"nothing", "-1", "0-3", {}, {}},
      {"CPUs without a node", "-1", "2-3", 1, {}},
      {"part of a node", "1", "3", 1, {3}},
      {"part of a node that is not named", "-1", "0", 0, {0}},
      {"the node is memory only", "7", "0-1", 0, {}},
      {"the node's cores are not allowed", "7", "16-23", 7, {}},
      {"the list contradicts the node", "1", "0", 1, {}},
      {"not a list", "0", "x-3", 0, {}},
  };
  for (const auto& test : cases) {
    sysfs.write(folder + "numa_node", std::string(test.node) + "\n");
    sysfs.write(folder + "local_cpulist", std::string(test.cpus) + "\n");
    const auto near = pci_locality(sysfs.path(), "0000:3b:00.0", cores);
    EXPECT_EQ(near.numa_node, test.expected_node) << test.what;
    EXPECT_EQ(near.cpus, test.expected_cpus) << test.what;
  }
  EXPECT_EQ(pci_locality(sysfs.path(), "0000:5e:00.0", cores).numa_node, std::nullopt);
}

}  // namespace
}  // namespace hvdrun
