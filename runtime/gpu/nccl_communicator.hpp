// One rank's part of an NCCL communicator, and the thread that watches over it.
//
// NCCL's kernels wait for each other on the GPUs: when a rank dies, those of the others, and every
// CPU thread that waits for their stream, would wait for ever. So a thread looks every 20 ms
// whether the peers live and whether NCCL has found an error; if so it aborts the communicator,
// which ends these kernels. Their results are lost, and every later call tells why.
#pragma once

#include "base/result.hpp"
#include "gpu/nccl_library.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace libhvd {

class NcclCommunicator {
 public:
  struct Setting {
    NcclLibrary nccl;
    int rank = 0;
    int size = 1;
    NcclUniqueId id{};  // the same on all ranks
    std::chrono::milliseconds patience{0};
    // Why the ranks cannot go on, if so. Any thread.
    std::function<std::optional<Error>()> find_failure;
    // Called once, when NCCL fails here. Any thread.
    std::function<void()> tell_peers;
  };

  // All ranks call it at the same time, with their device current. Error: NCCL's, a peer's death,
  // or HVD_ERROR_TIMEOUT when not all have come within `patience`.
  static Result<std::unique_ptr<NcclCommunicator>> start(Setting setting);

  // Waits for what is enqueued, for a moment; then gives up.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const NcclLibrary& nccl() const { return setting_.nccl; }

  // Calls NCCL and returns when it has enqueued what it was asked for: body: (NcclComm) ->
  // NcclStatus. An error ends the communicator, here and on the other ranks.
  Outcome enqueue(const std::function<NcclStatus(NcclComm)>& body);

  // Ends the communicator, here and on the other ranks, for something that failed beside NCCL.
  Error give_up_for(const Error& error);

  // Why nothing works any more, if so.
  std::optional<Error> failure() const;

 private:
  explicit NcclCommunicator(Setting setting) : setting_(std::move(setting)) {}

  Outcome join();
  Outcome settle(std::unique_lock<std::mutex>& lock, const char* what, NcclStatus status,
                 std::chrono::milliseconds patience);
  Outcome give_up(const Error& error);
  void watch();

  const Setting setting_;
  mutable std::mutex mutex_;  // guards what follows
  NcclComm comm_ = nullptr;   // null: aborted
  std::optional<Error> failure_;
  bool stop_ = false;
  std::condition_variable stopped_;
  std::thread watcher_;
};

}  // namespace libhvd
