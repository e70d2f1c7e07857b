// Starts processes as ranks must be started: with their own session, streams, cores, memory policy
// and limits, and fast, also from a process with threads. A SpawnPool starts many at once on a few
// threads; it belongs to one thread. Error: exec's, with its exit code (126 or 127).
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
  int input = -1;                        // these three become 0, 1 and 2
  int output = -1;
  int error = -1;
  bool has_terminal = false;    // `input` becomes the controlling terminal
  int inherited = -1;           // stays open under its number; -1: none
  std::vector<int> cpus;        // sched_setaffinity(2); empty: the caller's
  std::vector<int> numa_nodes;  // set_mempolicy(2), preferred; empty: the caller's policy
  std::vector<ResourceLimit> limits;
};

// Starts a process and returns its pid; on any thread. The process leads a session of its own and
// dies (SIGKILL) with the calling thread. All its signals have their default actions, and none is
// blocked. Error: exec failed (exit code 126 or 127, and a message for the user), or no process can
// be made. After an error nothing runs.
Result<pid_t> spawn(const SpawnRequest& request);

// Starts many processes at once, on a few threads.
//
// Between vfork and exec the calling thread waits for the child, so one thread starts one process
// at a time. On a busy machine with two cores, 128 processes took eight times as long on one thread
// as on four. The threads live as long as the pool, and the processes that they have started die
// with them, because PR_SET_PDEATHSIG is bound to the thread (prctl(2)). So keep the pool until the
// job is over.
class SpawnPool {
 public:
  SpawnPool() = default;
  ~SpawnPool();
  SpawnPool(const SpawnPool&) = delete;
  SpawnPool& operator=(const SpawnPool&) = delete;

  // Returns one result for each request, in their order. The caller's thread works, too.
  std::vector<Result<pid_t>> spawn_all(const std::vector<SpawnRequest>& requests);

 private:
  // The work of one call, shared by the threads.
  struct Batch {
    const std::vector<SpawnRequest>* requests;
    std::vector<Result<pid_t>>* results;
    std::vector<int> changed_signals;  // of this process; the children reset them
    std::atomic<std::size_t> next{0};
  };

  void work();
  static void take_all(Batch& batch);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Batch* batch_ = nullptr;  // null while there is no work
  std::size_t generation_ = 0;
  std::size_t busy_ = 0;
  bool leaving_ = false;
};

}  // namespace hvdrun
