// NCCL, opened at run time; it moves data between GPUs. Only what is used is declared, from NCCL's
// user guide ("NCCL API"); it is the same since 2.14, the first version with communicators that do
// not block. Any thread may hold a copy of the table of functions.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "gpu/cuda_library.hpp"

#include <cstddef>
#include <string>

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

// ncclConfig_t of 2.14. By its size and version later libraries know which fields it lacks.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kNcclLeastVersion;
  int blocking = 0;
};

// Every function that libhvd calls, and its parameters.
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

  // Opens what HVD_NCCL_LIBRARY names, what the process has, or libnccl.so.2. Error
  // (HVD_ERROR_UNSUPPORTED): none can be opened, or it is too old.
  static Result<NcclLibrary> load(const Environment& environment);

  // Makes several calls as one: each(i) -> NcclStatus, for i from 0 to count - 1.
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

  // Returns "ncclAllReduce: unhandled cuda error: …" with HVD_ERROR_PEER if another rank's failure
  // shows here, or else with HVD_ERROR_SYSTEM. `comm` may be null.
  Error describe(NcclStatus status, const char* what, NcclComm comm) const;
};

// Returns "2.28.9".
std::string nccl_version_text(int version);

}  // namespace libhvd
