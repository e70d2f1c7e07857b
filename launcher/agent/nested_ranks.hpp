// Whether the ranks of this host have each started a launcher: then processes below them have
// numbers of their own (RANK, PMI_RANK …), and the job runs once in each slot. cli/ refuses the
// launchers that the command line shows; this finds the others.
//
// The agent owns it, on its loop's thread. It looks a few times after the start, in /proc. It
// cannot fail: what cannot be read is not found.
#pragma once

#include "agent/process_tree.hpp"
#include "agent/rank_processes.hpp"
#include "base/environment.hpp"
#include "base/event_loop.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// A process with a number that hvdrun has not given to its rank.
struct NestedRank {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string variables;  // "RANK=1, WORLD_SIZE=2"
};

// Returns such a process among those below a rank's first process, if its parent has started
// several numbers; otherwise nullopt. `environment_of`: the variables that a process was executed
// with.
std::optional<NestedRank> find_nested_rank(pid_t root, const std::vector<ProcessInfo>& below,
                                           const std::function<Environment(pid_t)>& environment_of);

// Returns the program that a command line names, without its interpreter: "torchrun" for
// "/usr/bin/python3 /usr/bin/torchrun …".
std::string program_in(const std::vector<std::string>& command_line);

class NestedRanks {
 public:
  // `on_found` gets a warning, once, if every rank of this host has started ranks.
  NestedRanks(const EventLoop& loop, const RankProcesses& ranks,
              std::function<void(std::string)> on_found);

  // Begins to look. One rank may start others: it does so once.
  void start();
  void stop() { timer_.cancel(); }

 private:
  void on_timer();
  // Returns the warning; empty if there is a rank without ranks of its own.
  std::string look() const;

  const RankProcesses& ranks_;
  std::function<void(std::string)> on_found_;
  Timer timer_;
  std::size_t looks_ = 0;
};

}  // namespace hvdrun
