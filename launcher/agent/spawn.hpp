// Starting one process the way a rank must be started, quickly from a process with threads.
#pragma once

#include "base/resource_limits.hpp"
#include "base/result.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
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
  std::vector<ResourceLimit> limits;
};

// From any thread. The process leads a session of its own and dies (SIGKILL) with the calling
// thread. All signals are at their defaults in it, and none is blocked. Error: exec's, with the
// words a user needs (exit codes 126 and 127); nothing was started then.
Result<pid_t> spawn(const SpawnRequest& request);

// Starts many processes at once, on a few threads.
//
// Between vfork and exec the calling thread waits for the child, so one thread starts one process
// at a time: 128 of them took eight times as long on one thread as on four on a busy machine with
// two cores. The threads live as long as the pool, and what they have started dies with them
// (PR_SET_PDEATHSIG is bound to the thread, see prctl(2)): keep the pool until the job is over.

class SpawnPool {
 public:
  SpawnPool() = default;
  ~SpawnPool();
  SpawnPool(const SpawnPool&) = delete;
  SpawnPool& operator=(const SpawnPool&) = delete;

  // One result a request, in their order. The caller's thread works too.
  std::vector<Result<pid_t>> spawn_all(const std::vector<SpawnRequest>& requests);

 private:
  // One call's work, shared by the threads.
  struct Batch {
    const std::vector<SpawnRequest>* requests;
    std::vector<Result<pid_t>>* results;
    std::atomic<std::size_t> next{0};
  };

  void work();
  static void take_all(Batch& batch);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Batch* batch_ = nullptr;  // null: nothing to do
  std::size_t generation_ = 0;
  std::size_t busy_ = 0;
  bool leaving_ = false;
};

}  // namespace hvdrun
