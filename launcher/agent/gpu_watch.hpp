// How the GPUs of an agent's ranks are used while these run: looked at once a second.
//
// Owned by the agent. It looks on a thread of its own: NVML may hang when a GPU is in trouble, and
// the job must be stopped then more than ever. So nobody waits for that thread either; it ends with
// the process.
#pragma once

#include "model/counters.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

class GpuWatch {
 public:
  // Begins to look at these devices, by NVML's names, a second from now. Without any, no thread is
  // started and NVML is not opened.
  void start(std::vector<std::string> uuids);

  // What was seen so far; nothing where there is no NVML.
  std::vector<GpuUse> uses() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread; null before start()
};

}  // namespace hvdrun
