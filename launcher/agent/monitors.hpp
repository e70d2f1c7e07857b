// How the GPUs of an agent's ranks are used while these run: looked at once a second.
//
// Owned by the agent. It looks on a thread of its own: NVML may hang when a GPU is in trouble, and
// the job must be stopped then more than ever. So nobody waits for that thread either; it ends with
// the process.
#pragma once

#include "agent/host_setup.hpp"
#include "agent/rank_processes.hpp"
#include "agent/status_pages.hpp"
#include "base/event_loop.hpp"
#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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

  // Whether one of the ranks was seen to compute on each of several devices. Not known where NVML
  // counts processes otherwise: in a container with a PID namespace of its own.
  bool one_used_all(const std::vector<RankProcess>& ranks) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread; null before start()
};

// Whether the ranks of this host were seen to have connections. The agent owns it. It looks until
// one was seen, or the ranks have joined otherwise: ever less often, as a look takes time.
//
// The kernel lists a connection for a minute after its end, so none at the ranks' ports is missed.
// One at another port is missed when it begins and ends between two looks.
class ConnectionWatch {
 public:
  ConnectionWatch(const EventLoop& loop, std::function<bool()> joined);

  // Before the ranks start. Looks at the ports that this agent holds, and at MASTER_PORT, which
  // another host holds or the user has chosen. What the kernel lists there now is not the ranks'.
  void start(const LaunchMessage& job, const std::vector<HeldPort>& held);

  // Looks at the processes below this one, and at the ports.
  void look();

  // Looks when it is the first rank that has ended: the others may still be connected to it. A job
  // that has just begun is left alone.
  void rank_ended();

  // No process is left. Looks at the ports for the last time.
  void finish();

  bool seen() const { return seen_; }

  // Whether a process was seen to use TensorFlow, and the ranks were given no TF_CONFIG.
  bool lacks_tf_config() const { return saw_tensorflow_ && !has_tf_config_; }

 private:
  void look_at_ports();

  std::function<bool()> joined_;
  Timer timer_;  // pending while it looks
  std::chrono::steady_clock::time_point begun_;
  std::set<int> ports_;
  std::set<std::string> earlier_;
  bool seen_ = false;
  bool has_tf_config_ = false;
  bool saw_tensorflow_ = false;
  bool rank_has_ended_ = false;
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

double seconds_since(std::chrono::steady_clock::time_point begin);

// What a rank says of itself, as far as that can be: one that has ended is in no collective,
// whatever its page says, and none has been in one for longer than it runs.
RankStatus status_of(const StatusPages& pages, const RankProcess& process);

// The same of all ranks, for the launcher; for a table with the states of their processes.
StatesMessage states_of(const StatusPages& pages, const std::vector<RankProcess>& ranks,
                        StatesPurpose purpose);

// What a rank's process and its page say of its end. What its host knows beside that is left out:
// lost_connection and out_of_memory.
ExitedMessage exited_message(const StatusPages& pages, const RankProcess& process,
                             const RankProcesses::Exit& exit);

}  // namespace hvdrun
