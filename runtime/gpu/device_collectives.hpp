// The collectives on buffers in device memory, with the signatures of Communicator's.
//
// The ranks first agree over the communicator, as for host memory: a mistake of one is an error on
// all, and nothing is enqueued. Then the work goes to NCCL on the caller's stream, and the call
// returns without waiting for the GPU. On each GPU the collectives of all communicators run one
// after the other, in an order that is the same on all ranks (call_order.hpp). What NCCL cannot do
// (see nccl_reduction.hpp; several ranks on one GPU) goes through host memory, for which the CPU
// does wait.
#pragma once

#include "base/result.hpp"
#include "collective/call.hpp"
#include "collective/communicator.hpp"
#include "collective/group.hpp"
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
  // Allreduces of one type and operation, as one: packed into a buffer where our kernel is, else as
  // one group of NCCL's. At most kDeviceFusionBytes; each sound (allreduce_is_sound).
  Result<void> allreduce_together(std::span<const DevicePiece> pieces, hvd_type type, hvd_op op,
                                  const CallOptions& options);
  // Has no buffers: the communicator's own.
  Result<void> barrier(const CallOptions& options) { return communicator_.barrier(options); }

 private:
  // What a call reads and writes on the device, in bytes.
  struct Transfer {
    const void* input;
    std::size_t input_bytes;
    void* output;
    std::size_t output_bytes;
  };
  using OnHost =
      std::function<Result<void>(const void* input, void* output, const CallOptions& options)>;
  using OnNccl = std::function<NcclStatus(const NcclLibrary& nccl, NcclComm comm)>;
  // The operation is valid during the call only.
  using OnReduction = std::function<NcclStatus(const NcclLibrary& nccl, NcclOp op, NcclComm comm)>;

  void check_buffers(Call& call, const Transfer& transfer, const CallOptions& options);
  Result<void> open(const Call& call);
  // Puts what NCCL is asked for in `body` on the stream.
  Result<void> enqueue(const Call& call, CudaStream stream, const OnNccl& body);
  Result<void> enqueue_reduction(const Call& call, const NcclReduction& reduction,
                                 CudaStream stream, const OnReduction& body);
  Result<void> reduce_on_host(const Call& call, std::span<const DevicePiece> pieces,
                              const CallOptions& options);
  Result<void> reduce_packed(const Call& call, const NcclReduction& reduction,
                             const CopyKernel& kernel, std::span<const DevicePiece> pieces,
                             const CallOptions& options);
  Result<void> reduce_grouped(const Call& call, const NcclReduction& reduction,
                              std::span<const DevicePiece> pieces, const CallOptions& options);
  Result<void> through_host(const Transfer& transfer, const CallOptions& options,
                            const OnHost& body);
  // A result from the host's memory. Where that fails all ranks are told, as the others have theirs
  // and go on.
  Result<void> put_back(void* device, std::size_t offset, std::size_t bytes, CudaStream stream);
  // numbers[r * own.size() + i]: number i of rank r.
  Result<std::vector<std::size_t>> exchange(const std::vector<std::size_t>& own);
  // The one that came with the call, or memory of the allocator's on the device.
  Output find_output(const Call& call, void* given, const void* input, std::size_t row_bytes,
                     const CallOptions& options);
  // Which ranks can take their rows: all, unless some (`allocated`) had yet to find the memory.
  Result<std::vector<std::size_t>> find_takers(const Output& own, bool allocated);
  // What goes to each rank, or comes from it; nothing where the size is 0.
  struct Parts {
    std::vector<std::size_t> begins;
    std::vector<std::size_t> sizes;  // bytes, by rank
  };
  Result<void> exchange_rows(const Call& call, const void* input, const Parts& sent,
                             std::byte* output, const Parts& coming, CudaStream stream);

  Communicator& communicator_;
  DeviceGroup& group_;
  std::optional<CallTurn> turn_;  // from open() until nothing more is put on the stream
};

// Several allreduces on device memory that are carried out as one (collective/group.hpp).

Result<void> allreduce_group(DeviceCollectives& device, const AllreduceGroup& group,
                             const CallOptions& options);

}  // namespace libhvd
