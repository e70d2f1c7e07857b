// What an agent watches of its host while ranks run: the use of their GPUs, and kills for lack of
// memory. The agent owns both watches and calls them on its loop's thread. They cannot fail: where
// NVML or the kernel's counter is missing, nothing is seen.
#pragma once

#include "agent/rank_processes.hpp"
#include "model/report.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Records once a second how the GPUs of this agent's ranks are used.
//
// It looks on a thread of its own, because NVML may hang when a GPU has a fault, and stopping the
// job matters most then. For the same reason the thread is never joined: it ends with the process.
class GpuWatch {
 public:
  // Begins to look at these devices, given by NVML's names, one second from now. If there are none,
  // it starts no thread and does not open NVML. `ranks` are the agent's child processes.
  void start(std::vector<std::string> uuids, const std::vector<RankProcess>& ranks);

  // Looks at one more child process, which was started later.
  void add(const RankProcess& rank);

  // Returns what was seen so far. Does not wait for NVML.
  GpuRecord record() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread; null before start()
};

// Whether the kernel has killed a process of our control group for lack of memory; of this host, if
// the group has no counter.
//
// Source: Linux Documentation/admin-guide/cgroup-v2.rst (memory.events: oom_kill),
// cgroup-v1/memory.rst (memory.oom_control: oom_kill), /proc/vmstat (oom_kill).
class OomWatch {
 public:
  // Finds the counter. Without one, there was never a kill.
  OomWatch();
  explicit OomWatch(std::filesystem::path counter_file);  // for tests

  // Returns true once for each kill since the watch began.
  bool happened();

  // Returns whether a kill may be why a rank ended so (wait(2)): it was killed, or a process below
  // it was, and it failed by itself.
  bool may_explain(int wait_status);

 private:
  std::optional<std::uint64_t> count() const;
  bool has_more() const { return count().value_or(0) > seen_; }

  std::filesystem::path file_;
  std::uint64_t seen_ = 0;
};

}  // namespace hvdrun
