// Those of DeviceCollectives that move rows: allgather, reducescatter, alltoall.
#include "collective/calls.hpp"
#include "collective/element.hpp"
#include "gpu/device_collectives.hpp"

#include <algorithm>
#include <numeric>

namespace libhvd {
namespace {

using Sizes = std::vector<std::size_t>;

// Where each rank's part begins.
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

Result<Sizes> DeviceCollectives::find_takers(const Output& own, bool allocated) {
  if (!allocated) return Sizes(static_cast<std::size_t>(communicator_.size()), 1);
  return exchange({own.outcome.ok() ? std::size_t{1} : 0});
}

Outcome DeviceCollectives::exchange_rows(const Call& call, const void* input, const Parts& sent,
                                         std::byte* output, const Parts& coming,
                                         CudaStream stream) {
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

Outcome DeviceCollectives::allgather(const void* input, std::size_t rows, std::size_t row_size,
                                     hvd_type type, void* output, std::size_t output_rows,
                                     std::size_t* rows_by_rank, const CallOptions& options) {
  Call call = allgather_call(input, rows, row_size, type, output, output_rows, options);
  const std::size_t row_bytes = call.fault.empty() ? row_size * element_size(type) : 0;
  check_buffers(call, {input, rows * row_bytes, output, output_rows * row_bytes}, options);
  HVD_CHECK(open(call));

  HVD_TRY(const Sizes told, exchange({rows, call.output_rows}));
  Sizes sizes;  // bytes of each rank
  std::size_t least_room = kAnyRoom;
  bool allocated = false;  // by any rank
  for (std::size_t rank = 0; rank < told.size() / 2; ++rank) {
    if (rows_by_rank != nullptr) rows_by_rank[rank] = told[2 * rank];
    call.needed_rows += told[2 * rank];
    least_room = std::min(least_room, told[2 * rank + 1]);
    allocated = allocated || told[2 * rank + 1] == kAnyRoom;
    sizes.push_back(told[2 * rank] * row_bytes);
  }
  if (least_room < call.needed_rows) return communicator_.disagree(call);
  const Output target = find_output(call, output, input, row_bytes, options);
  const std::size_t total = sum(sizes);
  if (total == 0) return Done{};
  if (group_.through_host()) {
    HVD_CHECK(through_host({input, rows * row_bytes, target.bytes, total}, options,
                           [&](const void* in, void* out, const CallOptions& own) {
                             return communicator_.allgather(in, rows, row_size, type, out,
                                                            call.needed_rows, nullptr, own);
                           }));
    return target.outcome;
  }
  HVD_TRY(const Sizes takers, find_takers(target, allocated));
  const Sizes places = begins(sizes);
  if (sum(takers) < takers.size()) {
    Parts sent{Sizes(takers.size(), 0), takers};
    for (std::size_t& bytes : sent.sizes) bytes *= rows * row_bytes;
    const Parts coming{places, target.bytes != nullptr ? sizes : Sizes(sizes.size(), 0)};
    HVD_CHECK(exchange_rows(call, input, sent, target.bytes, coming, options.place.stream));
    return target.outcome;
  }
  return enqueue(call, options.place.stream, [&](const NcclLibrary& nccl, NcclComm comm) {
    if (all_equal(sizes))
      return nccl.ncclAllGather(input, target.bytes, sizes[0], NcclType::int8, comm,
                                options.place.stream);
    return nccl.group(sizes.size(), [&](std::size_t rank) {
      if (sizes[rank] == 0) return NcclStatus::success;
      return nccl.ncclBroadcast(input, at(target.bytes, places[rank]), sizes[rank], NcclType::int8,
                                static_cast<int>(rank), comm, options.place.stream);
    });
  });
}

Outcome DeviceCollectives::reducescatter(const void* input, std::size_t rows, std::size_t row_size,
                                         hvd_type type, hvd_op op, void* output,
                                         const CallOptions& options) {
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
  check_buffers(call, transfer, options);
  HVD_CHECK(open(call));
  if (transfer.input_bytes == 0) return Done{};
  const auto reduction = find_nccl_reduction(type, op, options.scale, communicator_.size());
  if (!reduction || group_.through_host()) {
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

Outcome DeviceCollectives::alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                                    std::size_t row_size, hvd_type type, void* output,
                                    std::size_t output_rows, std::size_t* received,
                                    const CallOptions& options) {
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
  HVD_TRY(const Sizes told, exchange(own));
  const auto split = [&](std::size_t from, std::size_t to) { return told[from * own.size() + to]; };
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
  HVD_TRY(const Sizes takers, find_takers(target, allocated));
  const Sizes from = begins(sent);
  const Sizes to = begins(coming);
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    sent[peer] *= takers[peer];
    coming[peer] *= takers[self];
  }
  HVD_CHECK(
      exchange_rows(call, input, {from, sent}, target.bytes, {to, coming}, options.place.stream));
  return target.outcome;
}

}  // namespace libhvd
