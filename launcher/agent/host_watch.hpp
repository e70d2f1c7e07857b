// What an agent watches of its host while ranks run: the use of their GPUs, and kills for lack of
// memory. The agent owns both watches and calls them on its loop's thread. They cannot fail: where
// a GPU's driver or the kernel's counter is missing, nothing is seen.
#pragma once

#include "agent/rank_processes.hpp"
#include "gpus/gpu_vendors.hpp"
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
// It looks on a thread of its own, because the vendor's library may hang when a GPU has a fault,
// and stopping the job matters most then. For the same reason the thread is never joined: it ends
// with the process.
class GpuRecorder {
 public:
  // Begins to look at these GPUs of a vendor, given by watched_name(), one second from now. If
  // there are none, it starts no thread and opens no library. `ranks` are the agent's child
  // processes.
  void start(const std::string& vendor, std::vector<std::string> gpus,
             const std::vector<RankProcess>& ranks, const GpuVendors& vendors = gpu_vendors());

  // Looks at one more child process, which was started later.
  void add(const RankProcess& rank);

  // Returns what was seen so far. Does not wait for a GPU.
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
