// How the GPUs of an agent's ranks are used while these run: looked at once a second.
//
// Owned by the agent. It looks on a thread of its own: NVML may hang when a GPU is in trouble, and
// the job must be stopped then more than ever. So nobody waits for that thread either; it ends with
// the process.
#pragma once

#include "agent/host_setup.hpp"
#include "agent/rank_processes.hpp"
#include "agent/status_pages.hpp"
#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
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

// The ports at which an agent's ranks may meet: those that it holds, and MASTER_PORT, which another
// host holds or the user has chosen.
std::set<int> ports_of_ranks(const LaunchMessage& job, const std::vector<HeldPort>& held);

// Whether the ranks of this host were seen to have connections. Owned by the agent, and asked by
// its timer until one has been seen: ever less often, as the scan takes time. Connections last as
// long as what ranks do together.
class ConnectionWatch {
 public:
  // When to look next, for ranks that have run for so many seconds.
  static std::chrono::milliseconds interval(double seconds);

  // These are the ranks' ports. What the kernel knows of them now was not the ranks'.
  void start(std::set<int> ports);

  // Looks at the processes below this one.
  void look();

  // Whether one was seen, or the kernel knows of one at the ports that was too short to be seen.
  bool seen() const;

 private:
  std::set<int> ports_;
  std::set<std::string> earlier_;
  bool seen_ = false;
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
