// One rank's part of an NCCL communicator, and the thread that watches it.
//
// NCCL's kernels wait for each other on the GPUs. When a rank dies, the kernels of the others, and
// every CPU thread that waits for their stream, would wait for ever. So every 20 ms a thread looks
// whether the peers live and whether NCCL or the GPU has an error. If not all is well, it aborts
// the communicator, which ends these kernels. Their results are lost, and every later call returns
// the error.
//
// One thread calls it, besides failure(), which any thread may call.
#pragma once

#include "base/error.hpp"
#include "gpu/nccl_library.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace libhvd {

class NcclCommunicator {
 public:
  struct Setting {
    NcclLibrary nccl;
    int rank = 0;
    int size = 1;
    NcclUniqueId id{};  // the same on all ranks
    std::chrono::milliseconds timeout{0};
    // Returns why the ranks cannot continue, or nullopt. Any thread may call it.
    std::function<std::optional<Error>()> find_failure;
    // Reports to the other ranks that NCCL has failed here. Any thread may call it, once or more.
    std::function<void()> notify_peers;
    // Looks at the work on the GPU, and returns whether there is some that is not done. Only the
    // thread that watches calls it. Error: the GPU's work has failed.
    std::function<Result<bool>()> look_at_gpu;
  };

  // Starts it. All ranks must call it at the same time, with their device current. Error: NCCL has
  // failed, a peer has died, or not all ranks called it within `timeout` (HVD_ERROR_TIMEOUT).
  static Result<std::unique_ptr<NcclCommunicator>> start(Setting setting);

  // Waits until what is enqueued has run, for 2 s at most.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const NcclLibrary& nccl() const { return setting_.nccl; }

  // Calls `body`, which calls NCCL, and returns when NCCL has enqueued its work. An error ends the
  // communicator, here and on the other ranks.
  Result<void> enqueue(const std::function<NcclStatus(NcclComm)>& body);

  // Ends the communicator, here and on the other ranks, after something other than NCCL failed.
  // Returns the first error of the communicator.
  Error give_up_for(const Error& error);

  // Returns why the communicator has ended, or nullopt.
  std::optional<Error> failure() const;
  // Does the same if its end has cut off work on the GPU.
  std::optional<Error> loss() const;

 private:
  explicit NcclCommunicator(Setting setting) : setting_(std::move(setting)) {}

  Result<void> join();
  Result<void> settle(std::unique_lock<std::mutex>& lock, const char* what, NcclStatus status,
                      std::chrono::milliseconds timeout);
  Result<void> give_up(const Error& error);
  void watch();

  const Setting setting_;
  mutable std::mutex mutex_;  // guards what follows
  NcclComm comm_ = nullptr;   // null: aborted
  std::optional<Error> failure_;
  bool lost_work_ = false;  // with the failure
  bool stop_ = false;
  std::condition_variable stopped_;
  std::thread watcher_;
};

}  // namespace libhvd
