// Builds a LocalMachine for tests.
#pragma once

#include "resources/inventory.hpp"

#include <string>

namespace hvdrun {

inline LocalMachine fake_machine(int cores, int gpus = 0, int threads = 1,
                                 const std::string& name = "n1.cluster") {
  LocalMachine made{name, {}};
  for (int i = 0; i < cores; ++i) {
    Core core;
    for (int thread = 0; thread < threads; ++thread) core.pus.push_back(i + thread * cores);
    made.inventory.cores.push_back(core);
  }
  made.inventory.numa_nodes = {0};
  for (int i = 0; i < gpus; ++i)
    made.inventory.gpus.push_back({std::to_string(i), "", "", "", 0, {}});
  return made;
}

}  // namespace hvdrun
