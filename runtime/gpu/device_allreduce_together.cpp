// DeviceCollectives::allreduce_together, and groups of allreduces, which it does in parts.
#include "collective/arguments.hpp"
#include "collective/call.hpp"
#include "collective/element.hpp"
#include "gpu/device_collectives.hpp"
#include "gpu/fusion_pieces.hpp"
#include "gpu/host_stage.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace libhvd {
namespace {

// Places the pieces in the buffer. Returns the copies that put them there.
std::vector<DeviceCopy> place_pieces(std::span<const DevicePiece> pieces, std::size_t element,
                                     std::byte* buffer) {
  std::vector<DeviceCopy> copies;
  std::size_t begin = 0;
  for (const DevicePiece& piece : pieces) {
    const std::size_t bytes = piece.count * element;
    copies.push_back({buffer + begin, piece.input, bytes});
    begin += aligned_piece(bytes);
  }
  return copies;
}

// Returns the end of the tensors that are reduced together with tensor `first`: all of them small
// enough to be packed, or none.
std::size_t end_of_part(const AllreduceGroup& group, std::size_t first) {
  const std::size_t element = element_size(group.type);
  const auto bytes = [&](std::size_t i) { return group.lengths[i] * element; };
  const bool small = bytes(first) <= kLargestDevicePiece;
  std::size_t together = 0;
  std::size_t end = first;
  while (end < group.lengths.size() && (bytes(end) <= kLargestDevicePiece) == small &&
         together + aligned_piece(bytes(end)) <= kDeviceFusionBytes)
    together += aligned_piece(bytes(end++));
  return std::max(end, first + 1);
}

}  // namespace

Result<void> DeviceCollectives::allreduce_together(std::span<const DevicePiece> pieces,
                                                   hvd_type type, hvd_op op,
                                                   const CallOptions& options, const char* shown) {
  Call call = make_call(Collective::allreduce, options);
  call.type = type;
  call.op = op;
  call.reproducible = communicator_.reproducible();
  shown_ = shown;
  const std::size_t element = element_size(type);
  if (call.fault.empty()) call.fault = check_scale(call.scale, type);
  bool small = true;
  for (const DevicePiece& piece : pieces) {
    const std::size_t bytes = piece.count * element;
    small = small && bytes <= kLargestDevicePiece;
    check_buffers(call, {piece.input, bytes, piece.output, bytes}, options);
    call.count += aligned_piece(bytes) / element;
  }
  HVD_CHECK(open(call));
  const auto reduction = find_reduction(call);
  if (!reduction) return reduce_on_host(call, pieces, options);
  if (const CopyKernel* const kernel = group_.copy_kernel(); kernel != nullptr && small)
    return reduce_packed(call, *reduction, *kernel, pieces, options);
  return reduce_grouped(call, *reduction, pieces, options);
}

// Reduces the pieces as one here too, so that either all pieces are written or none.
Result<void> DeviceCollectives::reduce_on_host(const Call& call,
                                               std::span<const DevicePiece> pieces,
                                               const CallOptions& options) {
  turn_.reset();
  const CurrentDevice current(group_.cuda(), group_.device());
  const std::size_t element = element_size(call.type);
  CallOptions on_host = options;
  on_host.place = {};
  HostStage& stage = group_.stage();
  const CudaStream stream = options.place.stream;
  Result<void> fetched = stage.make_room(call.count * element);
  std::size_t begin = 0;
  for (const DevicePiece& piece : pieces) {
    if (fetched.ok()) fetched = stage.fetch(begin, piece.input, piece.count * element, stream);
    begin += aligned_piece(piece.count * element);
  }
  if (fetched.ok()) fetched = stage.wait(stream);
  if (!fetched.ok()) on_host.fault = fetched.error().message;
  HVD_CHECK(
      communicator_.allreduce(stage.data(), stage.data(), call.count, call.type, call.op, on_host));
  begin = 0;
  Result<void> stored;
  for (const DevicePiece& piece : pieces) {
    const std::size_t bytes = piece.count * element;
    if (stored.ok()) stored = stage.store(piece.output, begin, bytes, stream);
    begin += aligned_piece(bytes);
  }
  return finish_storing(std::move(stored), stream);
}

Result<void> DeviceCollectives::reduce_packed(const Call& call, const NcclReduction& reduction,
                                              const CopyKernel& kernel,
                                              std::span<const DevicePiece> pieces,
                                              const CallOptions& options) {
  const CurrentDevice current(group_.cuda(), group_.device());
  const auto buffer = group_.fusion_buffer();
  if (!buffer.ok()) return group_.give_up(buffer.error());
  std::vector<DeviceCopy> copies = place_pieces(pieces, element_size(call.type), *buffer);
  const Result<void> packed = kernel.run(copies, options.place.stream);
  if (!packed.ok()) return group_.give_up(packed.error());
  HVD_CHECK(enqueue_reduction(call, reduction, options.place.stream,
                              [&](const NcclLibrary& nccl, NcclOp op, NcclComm comm) {
                                return nccl.ncclAllReduce(*buffer, *buffer, call.count,
                                                          reduction.type, op, comm,
                                                          options.place.stream);
                              }));
  for (std::size_t i = 0; i < pieces.size(); ++i)
    copies[i] = {pieces[i].output, copies[i].to, copies[i].bytes};
  const Result<void> unpacked = kernel.run(copies, options.place.stream);
  if (!unpacked.ok()) return group_.give_up(unpacked.error());
  return {};
}

Result<void> DeviceCollectives::reduce_grouped(const Call& call, const NcclReduction& reduction,
                                               std::span<const DevicePiece> pieces,
                                               const CallOptions& options) {
  return enqueue_reduction(call, reduction, options.place.stream,
                           [&](const NcclLibrary& nccl, NcclOp op, NcclComm comm) {
                             return nccl.group(pieces.size(), [&](std::size_t i) {
                               const DevicePiece& piece = pieces[i];
                               if (piece.count == 0) return NcclStatus::success;
                               return nccl.ncclAllReduce(piece.input, piece.output, piece.count,
                                                         reduction.type, op, comm,
                                                         options.place.stream);
                             });
                           });
}

// Agrees on the group in host memory. Then its tensors are enqueued on the device's stream, as many
// together as may be.
Result<void> allreduce_group(DeviceCollectives& device, const AllreduceGroup& group,
                             const CallOptions& options) {
  HVD_TRY(const bool with_joined, open_allreduce_group(device.communicator(), group, options));
  const bool one_by_one =
      with_joined || group.op == HVD_ADASUM || options.compression != Compression::none;
  for (std::size_t first = 0; first < group.lengths.size();) {
    const std::size_t end = one_by_one ? first + 1 : end_of_part(group, first);
    std::vector<DevicePiece> pieces;
    for (std::size_t i = first; i < end; ++i)
      pieces.push_back({group.inputs[i], group.outputs[i], group.lengths[i]});
    if (pieces.size() == 1) {
      HVD_CHECK(device.allreduce(pieces[0].input, pieces[0].output, pieces[0].count, group.type,
                                 group.op, options));
    } else {
      HVD_CHECK(device.allreduce_together(pieces, group.type, group.op, options));
    }
    first = end;
  }
  return {};
}

}  // namespace libhvd
