// Builds hosts, allocations and jobs for tests of placement.
#pragma once

#include "fake_hosts.hpp"
#include "model/job_spec.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

inline const std::vector<int> kEightGpus = {0, 0, 0, 0, 1, 1, 1, 1};

inline FakeHost cpu_host(int cores) {
  FakeHost made;
  made.cores_per_node = cores;
  return made;
}

inline FakeHost cpu_host(const std::string& name, int slots) {
  FakeHost made;
  made.name = name;
  made.cores_per_node = slots;
  return made;
}

inline FakeHost gpu_host(std::vector<int> gpu_nodes = kEightGpus) {
  FakeHost made;
  made.nodes = 2;
  made.cores_per_node = 16;
  made.gpu_nodes = std::move(gpu_nodes);
  return made;
}

inline FakeHost requested(FakeHost made, int slots) {
  made.slots = slots;
  made.slots_fixed = true;
  return made;
}

inline Allocation allocation_of(const std::vector<FakeHost>& hosts) {
  Allocation allocation;
  allocation.source = "test";
  for (const auto& host : hosts) allocation.hosts.push_back(make_host(host));
  return allocation;
}

inline Allocation allocation_with(const Host& host) {
  Allocation allocation;
  allocation.source = "test";
  allocation.hosts.push_back(host);
  return allocation;
}

inline JobSpec job(std::optional<int> ranks = {}) {
  JobSpec spec;
  spec.ranks = ranks;
  return spec;
}

}  // namespace hvdrun
