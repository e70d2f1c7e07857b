// Starts many processes at once, on a few threads.
//
// Between vfork and exec the calling thread waits for the child, so one thread starts one process
// at a time: 128 of them took eight times as long on one thread as on four on a busy machine with
// two cores. The threads live as long as the pool, and what they have started dies with them
// (PR_SET_PDEATHSIG is bound to the thread, see prctl(2)): keep the pool until the job is over.
#pragma once

#include "agent/spawn.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace hvdrun {

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
