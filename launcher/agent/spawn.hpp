// Starting one process the way a rank must be started, quickly from a process with threads.
#pragma once

#include "base/resource_limits.hpp"
#include "base/result.hpp"

#include <csignal>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct SpawnRequest {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=VALUE"
  int input = -1;                        // become 0, 1 and 2
  int output = -1;
  int error = -1;
  int inherited = -1;           // kept open under its number; -1: none
  std::vector<int> cpus;        // sched_setaffinity(2); empty: as we are
  std::vector<int> numa_nodes;  // set_mempolicy(2), preferred; empty: as we are
  sigset_t signal_mask{};       // blocked in the new process
  std::vector<ResourceLimit> limits;
};

// From any thread. The process leads a session of its own and dies (SIGKILL) with the calling
// thread. Signals that this process handles or ignores are at their defaults in it, but for SIGINT
// and SIGHUP: these stay ignored where they are. Error: exec's, with the words a user needs (exit
// codes 126 and 127); nothing was started then.
Result<pid_t> spawn(const SpawnRequest& request);

}  // namespace hvdrun
