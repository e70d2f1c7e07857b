#include "gpu/device_collectives.hpp"

#include "collective/adasum_factors.h"
#include "collective/arguments.hpp"
#include "collective/call.hpp"
#include "collective/element.hpp"
#include "gpu/host_stage.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace libhvd {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Error of_call(const Call& call, const Error& error) {
  return with_context(describe_call(make_call_details(call, 0)), error);
}

using Sizes = std::vector<std::size_t>;

// Returns where each rank's part begins.
Sizes begins(const Sizes& sizes) {
  Sizes places(sizes.size(), 0);
  std::partial_sum(sizes.begin(), sizes.end() - 1, places.begin() + 1);
  return places;
}

std::size_t sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

bool all_equal(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [&](auto size) { return size == sizes.front(); });
}

const std::byte* at(const void* buffer, std::size_t offset) {
  return static_cast<const std::byte*>(buffer) + offset;
}

std::byte* at(void* buffer, std::size_t offset) {
  return static_cast<std::byte*>(buffer) + offset;
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

Result<void> DeviceCollectives::open(const Call& call) {
  if (const auto failure = group_.take_failure()) return of_call(call, *failure);
  turn_.reset();
  auto turn = communicator_.agree(call);
  if (!turn.ok()) {
    // To the other ranks the failure is only that of a peer.
    const auto own = group_.take_failure();
    return own ? of_call(call, *own) : turn.error();
  }
  turn_.emplace(std::move(*turn));
  Result<void> met = group_.meet(communicator_, turn_->order());
  if (!met.ok()) return of_call(call, met.error());
  return {};
}

Result<void> DeviceCollectives::enqueue(const Call& call, CudaStream stream, const OnNccl& body) {
  const CurrentDevice current(group_.cuda(), group_.device());
  NcclCommunicator& nccl = group_.nccl();
  DeviceQueue& queue = group_.queue();
  Result<void> outcome = queue.begin(communicator_, collective_name(call.kind),
                                     shown_ != nullptr ? shown_ : call.name, stream);
  if (!outcome.ok()) return of_call(call, group_.give_up(outcome.error()));
  outcome = nccl.enqueue([&](NcclComm comm) { return body(nccl.nccl(), comm); });
  if (!outcome.ok()) {
    group_.take_failure();
    return of_call(call, outcome.error());
  }
  outcome = queue.end(stream);
  if (!outcome.ok()) return of_call(call, group_.give_up(outcome.error()));
  return {};
}

Result<void> DeviceCollectives::enqueue_reduction(const Call& call, const NcclReduction& reduction,
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

// A failure on the way to the host becomes a fault of the collective there, so all ranks return it.
// Without an output the result is dropped. No other rank's GPU waits for this one's, so the turn
// ends here and calls of other communicators need not wait.
Result<void> DeviceCollectives::through_host(const Transfer& transfer, const CallOptions& options,
                                             const OnHost& body) {
  turn_.reset();
  const CurrentDevice current(group_.cuda(), group_.device());
  CallOptions on_host = options;
  on_host.place = {};
  on_host.allocator = {};
  HostStage& stage = group_.stage();
  const bool in_place = transfer.input == transfer.output;
  const std::size_t output_at = in_place ? 0 : aligned(transfer.input_bytes);
  const CudaStream stream = options.place.stream;
  Result<void> fetched =
      stage.make_room(std::max(transfer.input_bytes, output_at + transfer.output_bytes));
  if (fetched.ok()) fetched = stage.fetch(0, transfer.input, transfer.input_bytes, stream);
  if (fetched.ok()) fetched = stage.wait(stream);
  if (!fetched.ok()) on_host.fault = fetched.error().message;
  HVD_CHECK(body(stage.data(), stage.data() + output_at, on_host));
  if (transfer.output == nullptr) return {};
  return finish_storing(stage.store(transfer.output, output_at, transfer.output_bytes, stream),
                        stream);
}

Result<void> DeviceCollectives::finish_storing(Result<void> enqueued, CudaStream stream) {
  Result<void> stored = enqueued.ok() ? group_.stage().wait(stream) : std::move(enqueued);
  if (!stored.ok()) communicator_.abort_job(FailureKind::device, communicator_.rank());
  return stored;
}

std::optional<NcclReduction> DeviceCollectives::find_reduction(const Call& call) const {
  const bool compressed = call.compression != Compression::none && !communicator_.on_one_host();
  const bool order_matters =
      is_floating_point(call.type) && call.op != HVD_MIN && call.op != HVD_MAX;
  if (group_.through_host() || compressed || (call.reproducible && order_matters))
    return std::nullopt;
  return find_nccl_reduction(call.type, call.op, call.scale, communicator_.size());
}

Result<void> DeviceCollectives::allreduce(const void* input, void* output, std::size_t count,
                                          hvd_type type, hvd_op op, const CallOptions& options) {
  Call call = allreduce_call(input, output, count, type, op, options);
  if (call.fault.empty() && op == HVD_ADASUM) call.fault = check_adasum_ranks(communicator_.size());
  const std::size_t bytes = call.fault.empty() ? count * element_size(type) : 0;
  const Transfer transfer{input, bytes, output, bytes};
  call.reproducible = communicator_.reproducible();
  check_buffers(call, transfer, options);
  const auto on_host = [&](const void* in, void* out, const CallOptions& own) {
    return communicator_.allreduce(in, out, count, type, op, own);
  };
  const Result<void> opened = open(call);
  if (communicator_.continues_with_joined()) return through_host(transfer, options, on_host);
  HVD_CHECK(opened);
  if (bytes == 0) return {};
  if (op == HVD_ADASUM && !group_.through_host() && !call.reproducible &&
      group_.adasum_kernels() != nullptr)
    return adasum(input, output, count, type, options, call);
  const auto reduction = find_reduction(call);
  if (!reduction) return through_host(transfer, options, on_host);
  return enqueue_reduction(call, *reduction, options.place.stream,
                           [&](const NcclLibrary& nccl, NcclOp nccl_op, NcclComm comm) {
                             return nccl.ncclAllReduce(input, output, count, reduction->type,
                                                       nccl_op, comm, options.place.stream);
                           });
}

// The steps of Communicator::adasum() on the device. The CPU does not wait for them.
Result<void> DeviceCollectives::adasum(const void* input, void* output, std::size_t count,
                                       hvd_type type, const CallOptions& options,
                                       const Call& call) {
  const CurrentDevice current(group_.cuda(), group_.device());
  const CudaStream stream = options.place.stream;
  const AdasumKernels& kernels = *group_.adasum_kernels();
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const std::size_t element = element_size(type);
  Sizes slices;  // bytes
  for (std::size_t rank = 0; rank < ranks; ++rank)
    slices.push_back((count / ranks + (rank < count % ranks ? 1 : 0)) * element);
  const std::size_t own = slices[static_cast<std::size_t>(communicator_.rank())];
  const std::size_t longest = slices[0] / element;
  const auto memory = group_.workspace(communicator_, adasum_work_bytes(longest, ranks, type));
  if (!memory.ok()) return of_call(call, memory.error());
  const AdasumWork work = place_adasum_work(*memory, own / element, longest, ranks, type);

  const Sizes mine(ranks, own);
  HVD_CHECK(
      exchange_rows(call, input, {begins(slices), slices}, *memory, {begins(mine), mine}, stream));
  const Result<void> multiplied = kernels.multiply(work, stream);
  if (!multiplied.ok()) return group_.give_up(multiplied.error());
  HVD_CHECK(enqueue(call, stream, [&](const NcclLibrary& nccl, NcclComm comm) {
    return nccl.ncclAllReduce(work.products, work.products, adasum_products(ranks),
                              NcclType::float64, NcclOp::sum, comm, stream);
  }));
  const Result<void> combined =
      kernels.combine(work, options.scale.before * options.scale.after, stream);
  if (!combined.ok()) return group_.give_up(combined.error());
  return gather_rows(call, *memory, slices, static_cast<std::byte*>(output), stream);
}

Result<void> DeviceCollectives::broadcast(void* buffer, std::size_t count, hvd_type type, int root,
                                          const CallOptions& options) {
  Call call = broadcast_call(buffer, count, type, root, communicator_.size(), options);
  const std::size_t bytes = call.fault.empty() ? count * element_size(type) : 0;
  const Transfer transfer{buffer, bytes, buffer, bytes};
  check_buffers(call, transfer, options);
  HVD_CHECK(open(call));
  if (bytes == 0) return {};
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

Result<Sizes> DeviceCollectives::exchange(const Sizes& own) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  Sizes all(ranks * own.size());
  HVD_CHECK(communicator_.allgather(own.data(), 1, own.size() * sizeof(std::size_t), HVD_UINT8,
                                    all.data(), ranks, nullptr, {}));
  return all;
}

Output DeviceCollectives::find_output(const Call& call, void* given, const void* input,
                                      std::size_t row_bytes, const CallOptions& options) {
  const CurrentDevice current(group_.cuda(), group_.device());
  Output found = libhvd::find_output(call, given, options.allocator, input, row_bytes);
  if (!options.allocator || found.bytes == nullptr) return found;
  const std::string wrong = group_.check_buffer("output of hvd_options.allocate", found.bytes,
                                                call.needed_rows * row_bytes, options.place);
  return wrong.empty() ? found : unusable_output(call, wrong);
}

Result<Sizes> DeviceCollectives::find_receivers(const Output& own, bool allocated) {
  if (!allocated) return Sizes(static_cast<std::size_t>(communicator_.size()), 1);
  return exchange({own.outcome.ok() ? std::size_t{1} : 0});
}

Result<void> DeviceCollectives::exchange_rows(const Call& call, const void* input,
                                              const Parts& sent, std::byte* output,
                                              const Parts& coming, CudaStream stream) {
  return enqueue(call, stream, [&](const NcclLibrary& nccl, NcclComm comm) {
    return nccl.group(sent.sizes.size(), [&](std::size_t rank) {
      const auto peer = static_cast<int>(rank);
      NcclStatus status = NcclStatus::success;
      if (sent.sizes[rank] > 0)
        status = nccl.ncclSend(at(input, sent.begins[rank]), sent.sizes[rank], NcclType::int8, peer,
                               comm, stream);
      if (status != NcclStatus::success && status != NcclStatus::in_progress) return status;
      if (coming.sizes[rank] == 0) return status;
      return nccl.ncclRecv(at(output, coming.begins[rank]), coming.sizes[rank], NcclType::int8,
                           peer, comm, stream);
    });
  });
}

Result<void> DeviceCollectives::allgather(const void* input, std::size_t rows, std::size_t row_size,
                                          hvd_type type, void* output, std::size_t output_rows,
                                          std::size_t* rows_by_rank, const CallOptions& options) {
  Call call = allgather_call(input, rows, row_size, type, output, output_rows, options);
  const std::size_t row_bytes = call.fault.empty() ? row_size * element_size(type) : 0;
  check_buffers(call, {input, rows * row_bytes, output, output_rows * row_bytes}, options);
  HVD_CHECK(open(call));

  HVD_TRY(const Sizes all, exchange({rows, call.output_rows}));
  Sizes sizes;  // bytes of each rank
  std::size_t least_room = kAnyRoom;
  bool allocated = false;  // by any rank
  for (std::size_t rank = 0; rank < all.size() / 2; ++rank) {
    if (rows_by_rank != nullptr) rows_by_rank[rank] = all[2 * rank];
    call.needed_rows += all[2 * rank];
    least_room = std::min(least_room, all[2 * rank + 1]);
    allocated = allocated || all[2 * rank + 1] == kAnyRoom;
    sizes.push_back(all[2 * rank] * row_bytes);
  }
  if (least_room < call.needed_rows) return communicator_.disagree(call);
  const Output target = find_output(call, output, input, row_bytes, options);
  const std::size_t total = sum(sizes);
  if (total == 0) return {};
  if (group_.through_host()) {
    HVD_CHECK(through_host({input, rows * row_bytes, target.bytes, total}, options,
                           [&](const void* in, void* out, const CallOptions& own) {
                             return communicator_.allgather(in, rows, row_size, type, out,
                                                            call.needed_rows, nullptr, own);
                           }));
    return target.outcome;
  }
  HVD_TRY(const Sizes receivers, find_receivers(target, allocated));
  const Sizes places = begins(sizes);
  if (sum(receivers) < receivers.size()) {
    Parts sent{Sizes(receivers.size(), 0), receivers};
    for (std::size_t& bytes : sent.sizes) bytes *= rows * row_bytes;
    const Parts coming{places, target.bytes != nullptr ? sizes : Sizes(sizes.size(), 0)};
    HVD_CHECK(exchange_rows(call, input, sent, target.bytes, coming, options.place.stream));
    return target.outcome;
  }
  return gather_rows(call, input, sizes, target.bytes, options.place.stream);
}

Result<void> DeviceCollectives::gather_rows(const Call& call, const void* input, const Sizes& sizes,
                                            std::byte* output, CudaStream stream) {
  const Sizes places = begins(sizes);
  return enqueue(call, stream, [&](const NcclLibrary& nccl, NcclComm comm) {
    if (all_equal(sizes))
      return nccl.ncclAllGather(input, output, sizes[0], NcclType::int8, comm, stream);
    return nccl.group(sizes.size(), [&](std::size_t rank) {
      if (sizes[rank] == 0) return NcclStatus::success;
      return nccl.ncclBroadcast(input, at(output, places[rank]), sizes[rank], NcclType::int8,
                                static_cast<int>(rank), comm, stream);
    });
  });
}

Result<void> DeviceCollectives::reducescatter(const void* input, std::size_t rows,
                                              std::size_t row_size, hvd_type type, hvd_op op,
                                              void* output, const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const auto self = static_cast<std::size_t>(communicator_.rank());
  Sizes shares;  // rows, then elements
  for (std::size_t rank = 0; rank < ranks; ++rank)
    shares.push_back(rows / ranks + (rank < rows % ranks ? 1 : 0));
  Call call = reducescatter_call(input, rows, row_size, type, op, output, shares[self], options);
  const std::size_t element = call.fault.empty() ? element_size(type) : 0;
  const std::size_t elements_a_row = call.fault.empty() ? row_size : 0;
  for (std::size_t& share : shares) share *= elements_a_row;
  const Transfer transfer{input, rows * elements_a_row * element, output, shares[self] * element};
  call.reproducible = communicator_.reproducible();
  check_buffers(call, transfer, options);
  HVD_CHECK(open(call));
  if (transfer.input_bytes == 0) return {};
  const auto reduction = find_reduction(call);
  if (!reduction) {
    return through_host(transfer, options, [&](const void* in, void* out, const CallOptions& own) {
      return communicator_.reducescatter(in, rows, row_size, type, op, out, own);
    });
  }
  const Sizes places = begins(shares);
  return enqueue_reduction(
      call, *reduction, options.place.stream,
      [&](const NcclLibrary& nccl, NcclOp nccl_op, NcclComm comm) {
        if (all_equal(shares))
          return nccl.ncclReduceScatter(input, output, shares[0], reduction->type, nccl_op, comm,
                                        options.place.stream);
        return nccl.group(ranks, [&](std::size_t rank) {
          if (shares[rank] == 0) return NcclStatus::success;
          return nccl.ncclReduce(at(input, places[rank] * element), output, shares[rank],
                                 reduction->type, nccl_op, static_cast<int>(rank), comm,
                                 options.place.stream);
        });
      });
}

Result<void> DeviceCollectives::alltoall(const void* input, const std::size_t* splits,
                                         std::size_t rows, std::size_t row_size, hvd_type type,
                                         void* output, std::size_t output_rows,
                                         std::size_t* received, const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const auto self = static_cast<std::size_t>(communicator_.rank());
  Call call = alltoall_call(input, splits, rows, row_size, type, output, output_rows,
                            communicator_.size(), options);
  const std::size_t row_bytes = call.fault.empty() ? row_size * element_size(type) : 0;
  check_buffers(call, {input, rows * row_bytes, output, output_rows * row_bytes}, options);
  HVD_CHECK(open(call));

  Sizes own;  // rows for each rank, and the room here
  for (std::size_t rank = 0; rank < ranks; ++rank)
    own.push_back(splits != nullptr ? splits[rank] : rows / ranks);
  own.push_back(call.output_rows);
  HVD_TRY(const Sizes all, exchange(own));
  const auto split = [&](std::size_t from, std::size_t to) { return all[from * own.size() + to]; };
  Sizes sent, coming;  // bytes
  bool fits = true;
  bool allocated = false;  // by any rank
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    std::size_t needed = 0;
    for (std::size_t from = 0; from < ranks; ++from) needed += split(from, peer);
    fits = fits && needed <= split(peer, ranks);
    allocated = allocated || split(peer, ranks) == kAnyRoom;
    if (peer == self) call.needed_rows = needed;
    if (received != nullptr) received[peer] = split(peer, self);
    sent.push_back(own[peer] * row_bytes);
    coming.push_back(split(peer, self) * row_bytes);
  }
  if (!fits) return communicator_.disagree(call);
  const Output target = find_output(call, output, input, row_bytes, options);
  if (group_.through_host()) {
    HVD_CHECK(through_host({input, rows * row_bytes, target.bytes, sum(coming)}, options,
                           [&](const void* in, void* out, const CallOptions& host) {
                             return communicator_.alltoall(in, splits, rows, row_size, type, out,
                                                           call.needed_rows, nullptr, host);
                           }));
    return target.outcome;
  }
  HVD_TRY(const Sizes receivers, find_receivers(target, allocated));
  const Sizes from = begins(sent);
  const Sizes to = begins(coming);
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    sent[peer] *= receivers[peer];
    coming[peer] *= receivers[self];
  }
  HVD_CHECK(
      exchange_rows(call, input, {from, sent}, target.bytes, {to, coming}, options.place.stream));
  return target.outcome;
}

}  // namespace libhvd
