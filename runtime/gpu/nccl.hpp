// NCCL, opened at run time: what moves data between GPUs. Declared is what is used, by NCCL's user
// guide ("NCCL API"); what is used has been the same since 2.14, the first with communicators that
// do not block.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "gpu/cuda_library.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace libhvd {

using NcclComm = void*;  // ncclComm_t

enum class NcclStatus : int {  // ncclResult_t
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum class NcclType : int {  // ncclDataType_t
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

enum class NcclOp : int { sum = 0, product = 1, max = 2, min = 3, average = 4 };  // ncclRedOp_t
inline constexpr int kNcclScalarOnHost = 1;  // ncclScalarHostImmediate

struct NcclUniqueId {
  char bytes[128];
};

inline constexpr int kNcclLeastVersion = 21400;

// ncclConfig_t as it was in 2.14: its size and version tell later ones which fields it lacks.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kNcclLeastVersion;
  int blocking = 0;
};

// Every function that we call, and its parameters.
#define HVD_NCCL_FUNCTIONS(X)                                                                     \
  X(ncclGetVersion, (int* version))                                                               \
  X(ncclGetUniqueId, (NcclUniqueId * id))                                                         \
  X(ncclCommInitRankConfig,                                                                       \
    (NcclComm * comm, int size, NcclUniqueId id, int rank, NcclConfig* config))                   \
  X(ncclCommFinalize, (NcclComm comm))                                                            \
  X(ncclCommDestroy, (NcclComm comm))                                                             \
  X(ncclCommAbort, (NcclComm comm))                                                               \
  X(ncclCommGetAsyncError, (NcclComm comm, NcclStatus * status))                                  \
  X(ncclAllReduce, (const void* input, void* output, std::size_t count, NcclType type, NcclOp op, \
                    NcclComm comm, CudaStream stream))                                            \
  X(ncclReduce, (const void* input, void* output, std::size_t count, NcclType type, NcclOp op,    \
                 int root, NcclComm comm, CudaStream stream))                                     \
  X(ncclBroadcast, (const void* input, void* output, std::size_t count, NcclType type, int root,  \
                    NcclComm comm, CudaStream stream))                                            \
  X(ncclAllGather, (const void* input, void* output, std::size_t count, NcclType type,            \
                    NcclComm comm, CudaStream stream))                                            \
  X(ncclReduceScatter, (const void* input, void* output, std::size_t count, NcclType type,        \
                        NcclOp op, NcclComm comm, CudaStream stream))                             \
  X(ncclSend, (const void* input, std::size_t count, NcclType type, int peer, NcclComm comm,      \
               CudaStream stream))                                                                \
  X(ncclRecv,                                                                                     \
    (void* output, std::size_t count, NcclType type, int peer, NcclComm comm, CudaStream stream)) \
  X(ncclGroupStart, ())                                                                           \
  X(ncclGroupEnd, ())                                                                             \
  X(ncclRedOpCreatePreMulSum,                                                                     \
    (NcclOp * op, void* factor, NcclType type, int residence, NcclComm comm))                     \
  X(ncclRedOpDestroy, (NcclOp op, NcclComm comm))

struct NcclLibrary {
#define HVD_NCCL_MEMBER(name, parameters) NcclStatus(*name) parameters = nullptr;
  HVD_NCCL_FUNCTIONS(HVD_NCCL_MEMBER)
#undef HVD_NCCL_MEMBER
  const char* (*ncclGetErrorString)(NcclStatus status) = nullptr;
  const char* (*ncclGetLastError)(NcclComm comm) = nullptr;

  int version = 0;  // 22809 is 2.28.9

  // HVD_NCCL_LIBRARY, what the process has, or libnccl.so.2. HVD_ERROR_UNSUPPORTED: there is none,
  // or it is too old.
  static Result<NcclLibrary> load(const Environment& environment);

  // Several calls as one: each(i) -> NcclStatus, for i from 0 to count - 1.
  template <class Each>
  NcclStatus group(std::size_t count, const Each& each) const {
    NcclStatus status = ncclGroupStart();
    if (status != NcclStatus::success) return status;
    for (std::size_t i = 0; i < count && status == NcclStatus::success; ++i) {
      status = each(i);
      if (status == NcclStatus::in_progress) status = NcclStatus::success;
    }
    const NcclStatus ended = ncclGroupEnd();
    return status != NcclStatus::success ? status : ended;
  }

  // "ncclAllReduce: unhandled cuda error: …". HVD_ERROR_PEER when it is another rank's failure that
  // shows here, else HVD_ERROR_SYSTEM. `comm` may be null.
  Error describe(NcclStatus status, const char* what, NcclComm comm) const;
};

// "2.28.9".
std::string nccl_version_text(int version);

// One rank's part of an NCCL communicator, and the thread that watches over it.
//
// NCCL's kernels wait for each other on the GPUs: when a rank dies, those of the others, and every
// CPU thread that waits for their stream, would wait for ever. So a thread looks every 20 ms
// whether the peers live and whether NCCL has found an error; if so it aborts the communicator,
// which ends these kernels. Their results are lost, and every later call tells why.

class NcclCommunicator {
 public:
  struct Setting {
    NcclLibrary nccl;
    int rank = 0;
    int size = 1;
    NcclUniqueId id{};  // the same on all ranks
    std::chrono::milliseconds timeout{0};
    // Why the ranks cannot go on, if so. Any thread.
    std::function<std::optional<Error>()> find_failure;
    // Called once, when NCCL fails here. Any thread.
    std::function<void()> tell_peers;
  };

  // All ranks call it at the same time, with their device current. Error: NCCL's, a peer's death,
  // or HVD_ERROR_TIMEOUT when not all have come within `timeout`.
  static Result<std::unique_ptr<NcclCommunicator>> start(Setting setting);

  // Waits for what is enqueued, for a moment; then gives up.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const NcclLibrary& nccl() const { return setting_.nccl; }

  // Calls NCCL and returns when it has enqueued what it was asked for: body: (NcclComm) ->
  // NcclStatus. An error ends the communicator, here and on the other ranks.
  Result<void> enqueue(const std::function<NcclStatus(NcclComm)>& body);

  // Ends the communicator, here and on the other ranks, for something that failed beside NCCL.
  Error give_up_for(const Error& error);

  // Why nothing works any more, if so.
  std::optional<Error> failure() const;

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
  bool stop_ = false;
  std::condition_variable stopped_;
  std::thread watcher_;
};

}  // namespace libhvd
