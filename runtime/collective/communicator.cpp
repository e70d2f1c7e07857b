#include "collective/communicator.hpp"

#include "base/text.hpp"
#include "collective/arguments.hpp"
#include "collective/element.hpp"
#include "collective/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace libhvd {
namespace {

static_assert(sizeof(CallRecord) <= kRecordBytes);

// Up to here every rank reduces all elements by itself, which saves a step.
constexpr std::size_t kSmallBytes = 8 * 1024;

const std::byte* bytes_of(const void* buffer) {
  return static_cast<const std::byte*>(buffer);
}
std::byte* bytes_of(void* buffer) {
  return static_cast<std::byte*>(buffer);
}

// memcpy, but a null pointer is fine with 0 bytes.
void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// What chunk `index` of `total` bytes holds.
std::size_t chunk_length(std::size_t total, std::size_t index) {
  const std::size_t begin = index * kChunkBytes;
  return begin >= total ? 0 : std::min(kChunkBytes, total - begin);
}

std::size_t chunks_in(std::size_t total) {
  return (total + kChunkBytes - 1) / kChunkBytes;
}

void stage_chunk(Area& area, const std::byte* data, std::size_t total, std::size_t index) {
  const std::size_t length = chunk_length(total, index);
  area.used.input = static_cast<std::uint32_t>(length);
  if (length > 0) std::memcpy(area.input, data + index * kChunkBytes, length);
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Segment> segment, int rank)
    : steps_(std::move(segment), rank), sources_(static_cast<std::size_t>(steps_.size())) {}

const CallRecord& Communicator::call_of(int rank) const {
  return *std::launder(reinterpret_cast<const CallRecord*>(steps_.theirs(rank).record));
}

Outcome Communicator::step(const CallRecord& record) {
  if (const auto failure = steps_.step()) {
    return fail(HVD_ERROR_PEER, describe_call(record) + ": " + describe_failure(*failure));
  }
  return Done{};
}

Outcome Communicator::open_call(const CallRecord& record) {
  new (steps_.mine().record) CallRecord(record);
  steps_.mine().used.record = sizeof record;
  HVD_CHECK(step(record));
  std::vector<const CallRecord*> calls;
  for (int rank = 0; rank < size(); ++rank) calls.push_back(&call_of(rank));
  if (auto error = find_disagreement(calls)) return *error;
  return Done{};
}

Outcome Communicator::barrier(const CallOptions& options) {
  CallRecord record = make_record(Collective::barrier, options.name);
  copy_text(record.fault, options.fault);
  return open_call(record);
}

Outcome Communicator::allreduce(const void* input, void* output, std::size_t count, hvd_type type,
                                hvd_op op, const CallOptions& options) {
  CallRecord record = make_record(Collective::allreduce, options.name);
  record.type = type;
  record.op = op;
  record.count = count;
  const std::string fault =
      options.fault.empty() ? check_allreduce(input, output, count, type, op) : options.fault;
  copy_text(record.fault, fault);
  const std::size_t bytes = count * element_size(type);
  const bool moves = !alone() || type == HVD_BOOL;  // bools become 0 or 1 even alone
  if (fault.empty() && moves) stage_chunk(steps_.mine(), bytes_of(input), bytes, 0);
  HVD_CHECK(open_call(record));
  if (count == 0) return Done{};
  if (!moves) {
    if (input != output) std::memcpy(output, input, bytes);
    return Done{};
  }
  if (bytes <= kSmallBytes) return allreduce_small(record, bytes_of(output));
  return allreduce_chunks(record, bytes_of(input), bytes_of(output));
}

// Elements begin … end of the chunk that all ranks have just shown, into our next area. They go
// through the segment and not to the caller, whose buffer need not be aligned.
void Communicator::reduce_slice(const CallRecord& record, std::size_t begin, std::size_t end) {
  const std::size_t element = element_size(record.type);
  for (int rank = 0; rank < size(); ++rank) {
    sources_[static_cast<std::size_t>(rank)] = steps_.theirs(rank).input + begin * element;
  }
  reduce(record.op, record.type, sources_, steps_.mine().result + begin * element, end - begin);
}

Outcome Communicator::allreduce_small(const CallRecord& record, std::byte* output) {
  reduce_slice(record, 0, record.count);
  std::memcpy(output, steps_.mine().result, record.count * element_size(record.type));
  return Done{};
}

// Each rank reduces its slice of every chunk. One step shows the slices of a chunk's result and the
// input of the next chunk.
Outcome Communicator::allreduce_chunks(const CallRecord& record, const std::byte* input,
                                       std::byte* output) {
  const std::size_t element = element_size(record.type);
  const std::size_t bytes = record.count * element;
  const auto ranks = static_cast<std::size_t>(size());
  for (std::size_t index = 0; index < chunks_in(bytes); ++index) {
    const std::size_t length = chunk_length(bytes, index) / element;
    const auto slice_begin = [&](std::size_t slice) { return length * slice / ranks; };
    const auto own = static_cast<std::size_t>(rank());
    reduce_slice(record, slice_begin(own), slice_begin(own + 1));
    steps_.mine().used.result_begin = static_cast<std::uint32_t>(slice_begin(own) * element);
    steps_.mine().used.result_end = static_cast<std::uint32_t>(slice_begin(own + 1) * element);
    stage_chunk(steps_.mine(), input, bytes, index + 1);
    HVD_CHECK(step(record));
    std::byte* chunk = output + index * kChunkBytes;
    for (std::size_t slice = 0; slice < ranks; ++slice) {
      const std::size_t begin = slice_begin(slice) * element;
      const std::size_t end = slice_begin(slice + 1) * element;
      copy(chunk + begin, steps_.theirs(static_cast<int>(slice)).result + begin, end - begin);
    }
  }
  return Done{};
}

Outcome Communicator::broadcast(void* buffer, std::size_t count, hvd_type type, int root,
                                const CallOptions& options) {
  CallRecord record = make_record(Collective::broadcast, options.name);
  record.type = type;
  record.root = root;
  record.count = count;
  const std::string fault =
      options.fault.empty() ? check_broadcast(buffer, count, type, root, size()) : options.fault;
  copy_text(record.fault, fault);
  const std::size_t bytes = count * element_size(type);
  const bool sends = rank() == root;
  if (fault.empty() && sends && !alone()) stage_chunk(steps_.mine(), bytes_of(buffer), bytes, 0);
  HVD_CHECK(open_call(record));
  if (alone()) return Done{};
  return steps_.on_one_host() ? broadcast_on_host(record, bytes_of(buffer), bytes)
                              : broadcast_chunks(record, bytes_of(buffer), bytes);
}

Outcome Communicator::broadcast_chunks(const CallRecord& record, std::byte* buffer,
                                       std::size_t bytes) {
  for (std::size_t index = 0; index < chunks_in(bytes); ++index) {
    if (index > 0) HVD_CHECK(step(record));
    if (rank() == record.root) {
      stage_chunk(steps_.mine(), buffer, bytes, index + 1);
    } else {
      std::memcpy(buffer + index * kChunkBytes, steps_.theirs(record.root).input,
                  chunk_length(bytes, index));
    }
  }
  return Done{};
}

// After the first chunk a step carries as much as the areas of all ranks hold, since nobody else
// writes into them: waiting for each other costs more than copying.
Outcome Communicator::broadcast_on_host(const CallRecord& record, std::byte* buffer,
                                        std::size_t bytes) {
  const bool sends = rank() == record.root;
  const std::size_t stretch = 2 * kChunkBytes * static_cast<std::size_t>(size());
  const auto show = [&](std::size_t begin) {
    const std::size_t end = std::min(bytes, begin + stretch);
    for (int rank = 0; begin < end; ++rank) {
      Area& area = steps_.next_of(rank);
      for (std::byte* place : {area.input, area.result}) {
        const std::size_t length = std::min(kChunkBytes, end - begin);
        libhvd::copy(place, buffer + begin, length);
        begin += length;
      }
    }
  };
  const auto take = [&](std::size_t begin) {
    const std::size_t end = std::min(bytes, begin + stretch);
    for (int rank = 0; begin < end; ++rank) {
      const Area& area = steps_.theirs(rank);
      for (const std::byte* place : {area.input, area.result}) {
        const std::size_t length = std::min(kChunkBytes, end - begin);
        libhvd::copy(buffer + begin, place, length);
        begin += length;
      }
    }
  };
  if (!sends) libhvd::copy(buffer, steps_.theirs(record.root).input, chunk_length(bytes, 0));
  for (std::size_t begin = kChunkBytes; begin < bytes; begin += stretch) {
    if (sends) show(begin);
    HVD_CHECK(step(record));
    if (!sends) take(begin);
  }
  return Done{};
}

Outcome Communicator::allgather(const void* input, std::size_t rows, std::size_t row_size,
                                hvd_type type, void* output, std::size_t output_rows,
                                std::size_t* rows_by_rank, const CallOptions& options) {
  CallRecord record = make_record(Collective::allgather, options.name);
  record.type = type;
  record.count = rows;
  record.row_size = row_size;
  record.output_rows = output_rows;
  const std::string fault = options.fault.empty()
                                ? check_allgather(input, rows, row_size, type, output, output_rows)
                                : options.fault;
  copy_text(record.fault, fault);
  const std::size_t row_bytes = row_size * element_size(type);
  if (fault.empty()) stage_chunk(steps_.mine(), bytes_of(input), rows * row_bytes, 0);
  const Outcome opened = open_call(record);
  // Also when the output was too small, which is the one error that all have with good records.
  const bool shown = opened.ok() || opened.error().status == HVD_ERROR_INVALID_ARGUMENT;
  std::vector<std::size_t> bytes;
  for (int rank = 0; shown && rank < size(); ++rank) {
    const std::size_t count = call_of(rank).count;
    if (rows_by_rank != nullptr) rows_by_rank[rank] = count;
    bytes.push_back(count * row_bytes);
  }
  HVD_CHECK(opened);
  const std::size_t longest = *std::max_element(bytes.begin(), bytes.end());
  for (std::size_t index = 0; index < chunks_in(longest); ++index) {
    if (index > 0) HVD_CHECK(step(record));
    stage_chunk(steps_.mine(), bytes_of(input), rows * row_bytes, index + 1);
    std::byte* part = bytes_of(output);
    for (int rank = 0; rank < size(); ++rank) {
      const std::size_t total = bytes[static_cast<std::size_t>(rank)];
      copy(part + std::min(index * kChunkBytes, total), steps_.theirs(rank).input,
           chunk_length(total, index));
      part += total;
    }
  }
  return Done{};
}

}  // namespace libhvd
