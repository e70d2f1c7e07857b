// DeviceCollectives::allreduce_together: many small tensors as one.
#include "collective/arguments.hpp"
#include "collective/element.hpp"
#include "gpu/device_collectives.hpp"
#include "gpu/fusion_buffer.hpp"

namespace libhvd {
namespace {

// Where the pieces lie in the buffer, as copies into it.
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

}  // namespace

Outcome DeviceCollectives::allreduce_together(std::span<const DevicePiece> pieces, hvd_type type,
                                              hvd_op op, const CallOptions& options) {
  Call call = make_call(Collective::allreduce, options);
  call.type = type;
  call.op = op;
  const std::size_t element = element_size(type);
  if (call.fault.empty()) call.fault = check_scale(call.scale, type);
  for (const DevicePiece& piece : pieces) {
    const std::size_t bytes = piece.count * element;
    check_buffers(call, {piece.input, bytes, piece.output, bytes}, options);
    call.count += aligned_piece(bytes) / element;
  }
  HVD_CHECK(open(call));
  const auto reduction = find_nccl_reduction(type, op, options.scale, communicator_.size());
  if (!reduction || group_.through_host()) return reduce_on_host(call, pieces, options);
  if (const CopyKernel* const kernel = group_.kernel())
    return reduce_packed(call, *reduction, *kernel, pieces, options);
  return reduce_grouped(call, *reduction, pieces, options);
}

// As one here too, so that either all pieces are written or none.
Outcome DeviceCollectives::reduce_on_host(const Call& call, std::span<const DevicePiece> pieces,
                                          const CallOptions& options) {
  turn_.reset();
  const CurrentDevice current(group_.cuda(), group_.device());
  const std::size_t element = element_size(call.type);
  CallOptions on_host = options;
  on_host.place = {};
  HostStage& stage = group_.stage();
  Outcome fetched = stage.make_room(call.count * element);
  std::size_t begin = 0;
  for (const DevicePiece& piece : pieces) {
    if (fetched.ok())
      fetched = stage.fetch(begin, piece.input, piece.count * element, options.place.stream);
    begin += aligned_piece(piece.count * element);
  }
  if (!fetched.ok()) on_host.fault = fetched.error().message;
  HVD_CHECK(
      communicator_.allreduce(stage.data(), stage.data(), call.count, call.type, call.op, on_host));
  begin = 0;
  for (const DevicePiece& piece : pieces) {
    const std::size_t bytes = piece.count * element;
    HVD_CHECK(put_back(piece.output, begin, bytes, options.place.stream));
    begin += aligned_piece(bytes);
  }
  return Done{};
}

Outcome DeviceCollectives::reduce_packed(const Call& call, const NcclReduction& reduction,
                                         const CopyKernel& kernel,
                                         std::span<const DevicePiece> pieces,
                                         const CallOptions& options) {
  const CurrentDevice current(group_.cuda(), group_.device());
  const auto buffer = group_.fusion_buffer();
  if (!buffer.ok()) return group_.give_up(buffer.error());
  std::vector<DeviceCopy> copies = place_pieces(pieces, element_size(call.type), *buffer);
  const Outcome packed = kernel.run(copies, options.place.stream);
  if (!packed.ok()) return group_.give_up(packed.error());
  HVD_CHECK(enqueue_reduction(call, reduction, options.place.stream,
                              [&](const NcclLibrary& nccl, NcclOp op, NcclComm comm) {
                                return nccl.ncclAllReduce(*buffer, *buffer, call.count,
                                                          reduction.type, op, comm,
                                                          options.place.stream);
                              }));
  for (std::size_t i = 0; i < pieces.size(); ++i)
    copies[i] = {pieces[i].output, copies[i].to, copies[i].bytes};
  const Outcome unpacked = kernel.run(copies, options.place.stream);
  if (!unpacked.ok()) return group_.give_up(unpacked.error());
  return Done{};
}

Outcome DeviceCollectives::reduce_grouped(const Call& call, const NcclReduction& reduction,
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

}  // namespace libhvd
