// How the GPUs of an agent's ranks are used while these run: looked at once a second.
//
// Owned by the agent. It looks on a thread of its own: NVML may hang when a GPU is in trouble, and
// the job must be stopped then more than ever. So nobody waits for that thread either; it ends with
// the process.
#pragma once

#include "agent/status_pages.hpp"
#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

// Whether the kernel has killed for memory in our control group since the last question.
//
// Source: Linux Documentation/admin-guide/cgroup-v2.rst (memory.events: oom_kill) and
// cgroup-v1/memory.rst (memory.oom_control: oom_kill).

class OomWatch {
 public:
  // Finds the file that counts for this process. Without one, happened() is always false.
  OomWatch();
  explicit OomWatch(std::filesystem::path counter_file);  // for tests

  // True once for each kill that was counted since the last call.
  bool happened();

 private:
  std::optional<std::uint64_t> count() const;

  std::filesystem::path file_;
  std::uint64_t seen_ = 0;
};

// Which ranks of this agent wait for other ranks for too long: tells each wait once when it has
// become too long, and once when it is over, completed or failed.
//
// Owned by the agent, on its loop's thread, and asked by its timer. Whether a wait is a stall, the
// launcher decides, which knows of the ranks on other hosts.

class StallWatch {
 public:
  // `limit`: how long is too long; more than 0.
  explicit StallWatch(std::chrono::milliseconds limit) : limit_(limit) {}

  // How often to look, so that a wait is told soon after it has become too long.
  std::chrono::milliseconds interval() const;

  // Looks at one rank; nothing is in progress in one that has ended.
  void look(int rank, const RankStatus& status);

  // What has changed since this was last asked.
  StallsMessage take();

 private:
  void look(int rank, bool background, const CollectiveStatus& now);

  std::chrono::milliseconds limit_;
  std::map<std::pair<int, bool>, CollectiveStatus> told_;  // by rank, and whether in the background
  StallsMessage changes_;
};

}  // namespace hvdrun
