#include "resources/placement_json.hpp"

#include "fake_hosts.hpp"
#include "resources/place.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using Json = nlohmann::json;

Allocation gpu_node() {
  FakeHost made;
  made.nodes = 2;
  made.cores_per_node = 2;
  made.gpu_nodes = {0, 1};
  Host host = make_host(made);
  host.inventory->gpus[0].uuid = "GPU-aa";
  host.inventory->gpus[0].name = "NVIDIA H200";
  host.inventory->gpus[0].pci_address = "0000:3b:00.0";
  host.inventory->gpus[0].memory_bytes = 150754820096;
  host.inventory->gpus[1].numa_node.reset();
  Allocation allocation;
  allocation.source = "this machine";
  allocation.hosts = {host};
  return allocation;
}

TEST(PlacementJson, HasTheDocumentedFields) {
  const auto allocation = gpu_node();
  JobSpec spec;
  spec.gpu_bind = GpuBind::single;
  const auto placement = place(spec, allocation);
  ASSERT_TRUE(placement) << placement.error().message;
  const Json expected = Json::parse(R"({
    "source": "this machine", "size": 2, "reasons": [], "notes": [], "to_ask": [],
    "hosts": [{
      "host": "n1", "slots": 2, "slots_source": "GPUs", "gpu_source": "NVML",
      "provisional": false,
      "ranks": [
        {"rank": 0, "local_rank": 0, "cross_rank": 0, "cross_size": 1,
         "device": 0, "visible_devices": "0",
         "gpu": {"index": 0, "visible": "0", "uuid": "GPU-aa", "pci_address": "0000:3b:00.0",
                 "name": "NVIDIA H200", "memory_bytes": 150754820096, "numa_node": 0},
         "cpus": [0, 1], "numa_nodes": [0]},
        {"rank": 1, "local_rank": 1, "cross_rank": 0, "cross_size": 1,
         "device": 0, "visible_devices": "1",
         "gpu": {"index": 1, "visible": "1", "uuid": null, "pci_address": null,
                 "name": null, "memory_bytes": null, "numa_node": null},
         "cpus": [2, 3], "numa_nodes": [1]}
      ]}]})");
  const std::string text = placement_json(allocation, *placement);
  EXPECT_EQ(Json::parse(text), expected) << text;
  EXPECT_EQ(text.back(), '\n');
}

TEST(PlacementJson, HasNullsWithoutGpus) {
  Allocation allocation;
  allocation.hosts = {make_host({})};
  const auto placement = place({}, allocation);
  ASSERT_TRUE(placement) << placement.error().message;
  const Json rank = Json::parse(placement_json(allocation, *placement))["hosts"][0]["ranks"][0];
  EXPECT_TRUE(rank["gpu"].is_null());
  EXPECT_TRUE(rank["device"].is_null());
  EXPECT_TRUE(rank["visible_devices"].is_null());
}

TEST(PlacementJson, MatchesRanksWithTheirHosts) {
  FakeHost empty;
  empty.name = "n0";
  Allocation allocation = gpu_node();
  allocation.hosts.insert(allocation.hosts.begin(), make_host(empty));
  Placement placement;
  placement.size = 1;
  placement.hosts = {{"n1", {RankPlacement{}}, false}};
  const Json host = Json::parse(placement_json(allocation, placement))["hosts"][0];
  EXPECT_EQ(host["host"], "n1");
  EXPECT_EQ(host["gpu_source"], "NVML");
}

TEST(PlacementJson, IsValidWithBytesThatAreNotUtf8) {
  Allocation allocation = gpu_node();
  allocation.hosts[0].inventory->gpu_source = "CUDA_VISIBLE_DEVICES=\xff";
  const auto placement = place({}, allocation);
  ASSERT_TRUE(placement);
  EXPECT_TRUE(Json::accept(placement_json(allocation, *placement)));
}

TEST(PlacementJson, MarksUnknownAndProvisionalHosts) {
  Allocation allocation;
  Host other;
  other.name = "n2";
  other.share.gpus = 2;
  other.share.gpus_source = "SLURM_GPUS_PER_NODE";
  other.slots = 2;
  allocation.hosts = {other};
  allocation.reasons = {"because"};
  Json json = Json::parse(placement_json(allocation, place({}, allocation).value()));
  EXPECT_EQ(json["reasons"][0], "because");
  EXPECT_EQ(json["hosts"][0]["provisional"], true);
  EXPECT_EQ(json["hosts"][0]["gpu_source"], "SLURM_GPUS_PER_NODE");
  EXPECT_EQ(json["hosts"][0]["ranks"][1]["device"], 1);
  EXPECT_TRUE(json["hosts"][0]["ranks"][1]["gpu"].is_null());

  allocation.hosts[0].slots.reset();
  json = Json::parse(placement_json(allocation, place({}, allocation).value()));
  EXPECT_EQ(json["to_ask"][0], "n2");
  EXPECT_EQ(json["size"], 0);
  EXPECT_TRUE(json["hosts"].empty());
}

}  // namespace
}  // namespace hvdrun
