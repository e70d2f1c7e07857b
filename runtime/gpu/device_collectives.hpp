// The collectives on buffers in device memory, with the signatures of Communicator's.
//
// The ranks first agree over the communicator, as for host memory: a mistake of one rank is an
// error on all, and nothing is enqueued. Then NCCL does the work on the caller's stream, and the
// call returns without waiting for the GPU. On each GPU the collectives of all communicators run
// one after the other, in the same order on all ranks (call_order.hpp). What NCCL cannot do goes
// through host memory, and there the CPU waits: some reductions (nccl_reduction.hpp), those that
// must add in the order of ranks, ranks that have joined, and several ranks on one GPU.
//
// The communicator's thread only.
#pragma once

#include "base/error.hpp"
#include "collective/call.hpp"
#include "collective/communicator.hpp"
#include "collective/group.hpp"
#include "collective/rows_output.hpp"
#include "gpu/device_group.hpp"
#include "gpu/nccl_reduction.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace libhvd {

// A tensor of several that are reduced together.
struct DevicePiece {
  const void* input;
  void* output;
  std::size_t count;
};

// Lives for one call.
class DeviceCollectives {
 public:
  explicit DeviceCollectives(Communicator& communicator)
      : communicator_(communicator), group_(DeviceGroup::of(communicator)) {}

  Communicator& communicator() { return communicator_; }

  Result<void> allreduce(const void* input, void* output, std::size_t count, hvd_type type,
                         hvd_op op, const CallOptions& options);
  Result<void> broadcast(void* buffer, std::size_t count, hvd_type type, int root,
                         const CallOptions& options);
  Result<void> allgather(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                         void* output, std::size_t output_rows, std::size_t* rows_by_rank,
                         const CallOptions& options);
  Result<void> reducescatter(const void* input, std::size_t rows, std::size_t row_size,
                             hvd_type type, hvd_op op, void* output, const CallOptions& options);
  Result<void> alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                        std::size_t row_size, hvd_type type, void* output, std::size_t output_rows,
                        std::size_t* received, const CallOptions& options);
  // Does allreduces of one type and operation as one: packed into a buffer if they are small and
  // there is a CopyKernel, or else as one group of NCCL. All together must have at most
  // kDeviceFusionBytes, and each must be sound (check_allreduce). No rank may have joined. `shown`
  // is their name for people; null: that of the options.
  Result<void> allreduce_together(std::span<const DevicePiece> pieces, hvd_type type, hvd_op op,
                                  const CallOptions& options, const char* shown = nullptr);
  // Does the communicator's barrier, because it has no buffers.
  Result<void> barrier(const CallOptions& options) { return communicator_.barrier(options); }

 private:
  // The memory on the device that a call reads and writes.
  struct Transfer {
    const void* input;
    std::size_t input_bytes;
    void* output;
    std::size_t output_bytes;
  };
  using OnHost =
      std::function<Result<void>(const void* input, void* output, const CallOptions& options)>;
  using OnNccl = std::function<NcclStatus(const NcclLibrary& nccl, NcclComm comm)>;
  // `op` is valid during the call only.
  using OnReduction = std::function<NcclStatus(const NcclLibrary& nccl, NcclOp op, NcclComm comm)>;

  // Sets the call's fault if a buffer is wrong.
  void check_buffers(Call& call, const Transfer& transfer, const CallOptions& options);
  // Begins the call: the ranks agree on it, take a turn in the order, and connect their devices.
  Result<void> open(const Call& call);
  // Returns how NCCL does the reduction of an open call; nullopt: it must go through host memory.
  std::optional<NcclReduction> find_reduction(const Call& call) const;
  // Enqueues on the stream the work for which `body` calls NCCL.
  Result<void> enqueue(const Call& call, CudaStream stream, const OnNccl& body);
  Result<void> enqueue_reduction(const Call& call, const NcclReduction& reduction,
                                 CudaStream stream, const OnReduction& body);
  Result<void> adasum(const void* input, void* output, std::size_t count, hvd_type type,
                      const CallOptions& options, const Call& call);
  // Enqueues the rows of all ranks into the output; `sizes` are their bytes.
  Result<void> gather_rows(const Call& call, const void* input,
                           const std::vector<std::size_t>& sizes, std::byte* output,
                           CudaStream stream);
  Result<void> reduce_on_host(const Call& call, std::span<const DevicePiece> pieces,
                              const CallOptions& options);
  Result<void> reduce_packed(const Call& call, const NcclReduction& reduction,
                             const CopyKernel& kernel, std::span<const DevicePiece> pieces,
                             const CallOptions& options);
  Result<void> reduce_grouped(const Call& call, const NcclReduction& reduction,
                              std::span<const DevicePiece> pieces, const CallOptions& options);
  Result<void> through_host(const Transfer& transfer, const CallOptions& options,
                            const OnHost& body);
  // Waits for the copies of a result to the device, if they were `enqueued`. A failure ends the job
  // for all ranks, because the others have their result and continue.
  Result<void> finish_storing(Result<void> enqueued, CudaStream stream);
  // Gathers the numbers of all ranks. The result has number i of rank r at [r * own.size() + i].
  Result<std::vector<std::size_t>> exchange(const std::vector<std::size_t>& own);
  // Returns the output that came with the call, or the allocator's memory on the device.
  Output find_output(const Call& call, void* given, const void* input, std::size_t row_bytes,
                     const CallOptions& options);
  // Returns 1 for each rank that can receive its rows, or else 0. All can, unless some rank has an
  // allocator (`allocated`), which may have failed.
  Result<std::vector<std::size_t>> find_receivers(const Output& own, bool allocated);
  // The data to or from each rank, in bytes. Size 0: no data.
  struct Parts {
    std::vector<std::size_t> begins;  // by rank
    std::vector<std::size_t> sizes;
  };
  Result<void> exchange_rows(const Call& call, const void* input, const Parts& sent,
                             std::byte* output, const Parts& coming, CudaStream stream);

  Communicator& communicator_;
  DeviceGroup& group_;
  std::optional<CallTurn> turn_;  // from open() until all work is on the stream
  const char* shown_ = nullptr;   // the call's name for people; null: its own
};

// Does several allreduces on device memory in one call (collective/group.hpp).
Result<void> allreduce_group(DeviceCollectives& device, const AllreduceGroup& group,
                             const CallOptions& options);

}  // namespace libhvd
