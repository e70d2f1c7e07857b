#include "gpu/device_collectives.hpp"

#include "collective/calls.hpp"
#include "collective/element.hpp"
#include "gpu/device_queue.hpp"

#include <optional>
#include <string>

namespace libhvd {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Error of_call(const Call& call, const Error& error) {
  return with_context(describe_call(make_record(call, 0)), error);
}

}  // namespace

void DeviceCollectives::check_buffers(Call& call, const Transfer& transfer,
                                      const CallOptions& options) {
  call.on_device = true;
  call.name = options.name;
  const auto check = [&](const char* what, const void* buffer, std::size_t bytes) {
    if (call.fault.empty()) call.fault = group_.check_buffer(what, buffer, bytes, options.place);
  };
  if (transfer.input == transfer.output)
    return check("buffer", transfer.input, transfer.input_bytes);
  check("input", transfer.input, transfer.input_bytes);
  check("output", transfer.output, transfer.output_bytes);
}

Outcome DeviceCollectives::open(const Call& call) {
  if (const auto failure = group_.failure()) return of_call(call, *failure);
  turn_.reset();
  HVD_TRY(auto turn, communicator_.agree(call));
  turn_.emplace(std::move(turn));
  Outcome met = group_.meet(communicator_);
  if (!met.ok()) return of_call(call, met.error());
  return Done{};
}

Outcome DeviceCollectives::enqueue(const Call& call, CudaStream stream, const OnNccl& body) {
  const CurrentDevice current(group_.cuda(), group_.device());
  NcclCommunicator& nccl = group_.nccl();
  DeviceQueue& queue = DeviceQueue::of(turn_->order(), group_.cuda());
  Outcome outcome = queue.come_last(stream);
  if (!outcome.ok()) return of_call(call, group_.give_up(outcome.error()));
  outcome = nccl.enqueue([&](NcclComm comm) { return body(nccl.nccl(), comm); });
  if (!outcome.ok()) return of_call(call, outcome.error());
  outcome = queue.mark(stream);
  if (!outcome.ok()) return of_call(call, group_.give_up(outcome.error()));
  return Done{};
}

Outcome DeviceCollectives::enqueue_reduction(const Call& call, const NcclReduction& reduction,
                                             CudaStream stream, const OnReduction& body) {
  return enqueue(call, stream, [&](const NcclLibrary& nccl, NcclComm comm) {
    if (!reduction.has_factor) return body(nccl, reduction.op, comm);
    NcclOp op{};
    std::uint64_t factor = reduction.factor;
    const NcclStatus made =
        nccl.ncclRedOpCreatePreMulSum(&op, &factor, reduction.type, kNcclScalarOnHost, comm);
    if (made != NcclStatus::success) return made;
    const NcclStatus status = body(nccl, op, comm);
    const NcclStatus destroyed = nccl.ncclRedOpDestroy(op, comm);
    return status != NcclStatus::success ? status : destroyed;
  });
}

// What goes wrong on the way to the host is told to all ranks by the collective there. Without an
// output the result is dropped. No other rank's GPU waits for this one's, so calls of other
// communicators need not wait either.
Outcome DeviceCollectives::through_host(const Transfer& transfer, const CallOptions& options,
                                        const OnHost& body) {
  turn_.reset();
  const CurrentDevice current(group_.cuda(), group_.device());
  CallOptions on_host = options;
  on_host.place = {};
  on_host.allocator = {};
  HostStage& stage = group_.stage();
  const bool in_place = transfer.input == transfer.output;
  const std::size_t output_at = in_place ? 0 : aligned(transfer.input_bytes);
  Outcome fetched = stage.make_room(output_at + transfer.output_bytes + transfer.input_bytes);
  if (fetched.ok())
    fetched = stage.fetch(0, transfer.input, transfer.input_bytes, options.place.stream);
  if (!fetched.ok()) on_host.fault = fetched.error().message;
  HVD_CHECK(body(stage.data(), stage.data() + output_at, on_host));
  if (transfer.output == nullptr) return Done{};
  return put_back(transfer.output, output_at, transfer.output_bytes, options.place.stream);
}

Outcome DeviceCollectives::put_back(void* device, std::size_t offset, std::size_t bytes,
                                    CudaStream stream) {
  Outcome stored = group_.stage().store(device, offset, bytes, stream);
  if (!stored.ok()) communicator_.condemn(FailureKind::device, communicator_.rank());
  return stored;
}

Outcome DeviceCollectives::allreduce(const void* input, void* output, std::size_t count,
                                     hvd_type type, hvd_op op, const CallOptions& options) {
  Call call = allreduce_call(input, output, count, type, op, options);
  const std::size_t bytes = call.fault.empty() ? count * element_size(type) : 0;
  const Transfer transfer{input, bytes, output, bytes};
  check_buffers(call, transfer, options);
  HVD_CHECK(open(call));
  if (bytes == 0) return Done{};
  const auto reduction = find_nccl_reduction(type, op, options.scale, communicator_.size());
  if (!reduction || group_.through_host()) {
    return through_host(transfer, options, [&](const void* in, void* out, const CallOptions& own) {
      return communicator_.allreduce(in, out, count, type, op, own);
    });
  }
  return enqueue_reduction(call, *reduction, options.place.stream,
                           [&](const NcclLibrary& nccl, NcclOp nccl_op, NcclComm comm) {
                             return nccl.ncclAllReduce(input, output, count, reduction->type,
                                                       nccl_op, comm, options.place.stream);
                           });
}

Outcome DeviceCollectives::broadcast(void* buffer, std::size_t count, hvd_type type, int root,
                                     const CallOptions& options) {
  Call call = broadcast_call(buffer, count, type, root, communicator_.size(), options);
  const std::size_t bytes = call.fault.empty() ? count * element_size(type) : 0;
  const Transfer transfer{buffer, bytes, buffer, bytes};
  check_buffers(call, transfer, options);
  HVD_CHECK(open(call));
  if (bytes == 0) return Done{};
  if (group_.through_host()) {
    return through_host(transfer, options, [&](const void*, void* out, const CallOptions& own) {
      return communicator_.broadcast(out, count, type, root, own);
    });
  }
  return enqueue(call, options.place.stream, [&](const NcclLibrary& nccl, NcclComm comm) {
    return nccl.ncclBroadcast(buffer, buffer, bytes, NcclType::int8, root, comm,
                              options.place.stream);
  });
}

}  // namespace libhvd
