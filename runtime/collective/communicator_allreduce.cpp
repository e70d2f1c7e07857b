// Communicator::allreduce. It has five ways, chosen by the size, by the memory of the buffers and
// by the number of hosts (allreduce_once).
#include "collective/arguments.hpp"
#include "collective/call.hpp"
#include "collective/communicator.hpp"
#include "collective/element.hpp"
#include "collective/error_feedback.hpp"
#include "collective/hosts_allreduce.hpp"
#include "collective/output_copy.hpp"
#include "collective/reduce.hpp"
#include "collective/rule_between_hosts.hpp"
#include "collective/staging.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace libhvd {
namespace {

// Up to this size every rank reduces all elements by itself, which saves a step.
constexpr std::size_t kSmallBytes = 8 * 1024;

// How the sliced allreduce divides its data: into chunks, each with one slice for each rank. A rank
// reduces its own slice of each chunk, and shows the others theirs. If there are more ranks than
// slots, only the first ranks have slices.
class Slices {
 public:
  Slices(std::size_t bytes, const Slots& slots)
      : slots_(slots),
        bytes_(bytes),
        chunk_(slots_.bytes() * static_cast<std::size_t>(slots_.ranks_in_group())) {}

  const Slots& slots() const { return slots_; }
  std::size_t chunks() const { return (bytes_ + chunk_ - 1) / chunk_; }

  struct Range {
    std::size_t begin;  // in the data
    std::size_t length;
  };
  // Returns a rank's slice of a chunk. The last chunk is divided evenly too.
  Range slice(std::size_t chunk, int rank) const {
    const std::size_t first = chunk * chunk_;
    const std::size_t left = std::min(chunk_, bytes_ - first);
    const std::size_t ranks = chunk_ / slots_.bytes();
    const std::size_t even = (left + ranks - 1) / ranks;
    const std::size_t size = (even + kCacheLine - 1) / kCacheLine * kCacheLine;
    const std::size_t begin = std::min(left, size * static_cast<std::size_t>(rank));
    return {first + begin, std::min(size, left - begin)};
  }

  // Copies the slices of all ranks but `own` into the area.
  void show(const Area& area, const std::byte* input, std::size_t chunk, int own) const {
    if (chunk >= chunks()) return;
    area.used.input = static_cast<std::uint32_t>(slots_.all_bytes());
    const auto ranks = static_cast<int>(chunk_ / slots_.bytes());
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == own) continue;
      const Range range = slice(chunk, rank);
      copy_bytes(area.input + slots_.begin(own, rank), input + range.begin, range.length);
    }
  }

 private:
  const Slots& slots_;
  std::size_t bytes_;
  std::size_t chunk_;  // bytes of a chunk
};

}  // namespace

Result<void> Communicator::allreduce(const void* input, void* output, std::size_t count,
                                     hvd_type type, hvd_op op, const CallOptions& options) {
  Result<void> outcome = allreduce_once(input, output, count, type, op, options);
  if (continues_with_joined()) outcome = allreduce_once(input, output, count, type, op, options);
  return outcome;
}

Result<void> Communicator::allreduce_once(const void* input, void* output, std::size_t count,
                                          hvd_type type, hvd_op op, const CallOptions& options) {
  if (op == HVD_ADASUM) return adasum(input, output, {&count, 1}, type, options);
  Call call = allreduce_call(input, output, count, type, op, options);
  call.reproducible = reproducible_;
  const std::size_t bytes = call.fault.empty() ? count * element_size(type) : 0;
  if (alone() && type != HVD_BOOL && !call.scale.any()) {  // bools become 0 or 1 even alone
    HVD_CHECK(open_call(call));
    if (input != output) copy_bytes(output, input, bytes);
    return {};
  }
  if (bytes <= kInlineBytes) return allreduce_inline(call, input, output);
  if (between_hosts_ && bytes > most_small_between_hosts(size(), chunks_.bytes)) {
    float* residuals = options.residuals;
    if (options.feedback != nullptr) residuals = options.feedback->residuals(count, type, op);
    return allreduce_between_hosts(call, bytes_of(input), bytes_of(output), residuals);
  }
  if (bytes <= kSmallBytes || alone() || !on_one_host())
    return allreduce_small(call, input, output);
  return allreduce_large(call, bytes_of(input), bytes_of(output));
}

// Moves the data beside the header.
Result<void> Communicator::allreduce_inline(const Call& call, const void* input, void* output) {
  const std::size_t bytes = call.fault.empty() ? call.count * element_size(call.type) : 0;
  copy_bytes(own_inline_data(), input, bytes);
  HVD_CHECK(open_call(call));
  if (bytes == 0) return {};
  for (int rank = 0; rank < size(); ++rank) {
    sources_[static_cast<std::size_t>(rank)] = inline_data(rank);
  }
  alignas(8) std::byte result[kInlineBytes];
  order_.reduce(call.op, call.type, sources_, result, call.count, call.scale);
  std::memcpy(output, result, bytes);
  return {};
}

Result<void> Communicator::allreduce_small(const Call& call, const void* input, void* output) {
  const std::size_t bytes = call.count * element_size(call.type);
  std::byte* const result = scratch();  // the caller's buffer need not be aligned
  for (std::size_t index = 0; index < chunks_.count(bytes); ++index) {
    const auto show = [&] {
      chunks_.stage(steps_.mine(), bytes_of(input), bytes, index);
      steps_.will_read(0, bytes);
    };
    if (index > 0) show();
    HVD_CHECK(index == 0 ? open_call(call, show) : step(call));
    const std::size_t length = chunks_.length(bytes, index);
    for (int rank = 0; rank < size(); ++rank) {
      sources_[static_cast<std::size_t>(rank)] = steps_.theirs(rank).input;
    }
    order_.reduce(call.op, call.type, sources_, result, length / element_size(call.type),
                  call.scale);
    std::memcpy(bytes_of(output) + index * chunks_.bytes, result, length);
  }
  return {};
}

// Moves the data by the streams, once the ranks have agreed on the call.
Result<void> Communicator::allreduce_between_hosts(const Call& call, const std::byte* input,
                                                   std::byte* output, float* residuals) {
  HVD_CHECK(open_call(call));
  if (const auto failure = between_hosts_->run(call, input, output, residuals))
    return peer_error(call, *failure);
  return {};
}

// On one host. Each rank first votes whether its buffers are in shared memory. If they are, its
// area has their location instead of data. If all are, each rank then votes whether it can map
// those of all others.
Result<void> Communicator::allreduce_large(const Call& call, const std::byte* input,
                                           std::byte* output) {
  const std::size_t bytes = call.count * element_size(call.type);
  const auto shared = find_shared(call, input, output);
  const Slices slices(bytes, slots_);
  HVD_CHECK(open_call(call, [&] {
    vote(shared.has_value());
    if (shared) {
      new (steps_.mine().input) SharedPair(*shared);
    } else {
      slices.show(steps_.mine(), input, 0, rank());
    }
  }));
  const int sharing = count_votes();
  if (sharing == size()) {
    const auto buffers = map_all(input, output);
    vote(buffers.has_value());
    HVD_CHECK(step(call));
    if (count_votes() == size()) return allreduce_shared(call, *buffers);
  }
  if (sharing > 0) {  // not on all ranks, or some rank cannot map them
    slices.show(steps_.mine(), input, 0, rank());
    HVD_CHECK(step(call));
  }
  return allreduce_sliced(call, input, output);
}

std::optional<Communicator::SharedPair> Communicator::find_shared(const Call& call,
                                                                  const std::byte* input,
                                                                  const std::byte* output) const {
  const std::size_t element = element_size(call.type);
  if (!aligned(input, element) || !aligned(output, element)) return std::nullopt;
  const auto in = memory_->find(input, call.count * element);
  const auto out = memory_->find(output, call.count * element);
  if (!in || !out) return std::nullopt;
  return SharedPair{*in, *out};
}

// Returns nullopt if one of the buffers cannot be mapped.
std::optional<Communicator::BufferPairs> Communicator::map_all(const std::byte* input,
                                                               std::byte* output) {
  BufferPairs buffers;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) {
      buffers.push_back({input, output, nullptr, nullptr});
      continue;
    }
    const auto& places =
        *std::launder(reinterpret_cast<const SharedPair*>(steps_.theirs(peer).input));
    auto in = memory_->map(places.input);
    auto out = memory_->map(places.output);
    if (!in.ok() || !out.ok()) return std::nullopt;
    buffers.push_back({in->get(), out->get(), std::move(*in), std::move(*out)});
  }
  return buffers;
}

void Communicator::vote(bool yes) {
  *own_inline_data() = std::byte{yes};
}

int Communicator::count_votes() const {
  int count = 0;
  for (int peer = 0; peer < size(); ++peer) count += *inline_data(peer) == std::byte{1};
  return count;
}

// Reduces this rank's slice of the whole, and writes it into the outputs of all ranks.
Result<void> Communicator::allreduce_shared(const Call& call, const BufferPairs& buffers) {
  const std::size_t element = element_size(call.type);
  const std::size_t bytes = call.count * element;
  const auto border = [&](int slice) {
    const std::size_t lines = (bytes + kCacheLine - 1) / kCacheLine;
    const auto ranks = static_cast<std::size_t>(size());
    return std::min(bytes, lines * static_cast<std::size_t>(slice) / ranks * kCacheLine);
  };
  std::byte* const own = buffers[static_cast<std::size_t>(rank())].output;
  const std::size_t end = border(rank() + 1);
  for (std::size_t begin = border(rank()); begin < end; begin += kHotBytes) {
    const std::size_t now = std::min(kHotBytes, end - begin);
    for (std::size_t peer = 0; peer < buffers.size(); ++peer)
      sources_[peer] = buffers[peer].input + begin;
    reduce(call.op, call.type, sources_, own + begin, now / element, call.scale);
    for (const BufferPair& buffer : buffers) {
      if (buffer.output != own) std::memcpy(buffer.output + begin, own + begin, now);
    }
  }
  return step(call);
}

// Reduces this rank's piece of `length` bytes. The others' parts are in their slots for this rank,
// its own is at `input`. The result goes to `output` and to these places.
void Communicator::reduce_slot(const Call& call, const Slots& slots, const std::byte* input,
                               std::byte* output, std::span<std::byte* const> places,
                               std::size_t length) {
  const std::size_t element = element_size(call.type);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    sources_[static_cast<std::size_t>(peer)] =
        steps_.theirs(peer).input + slots.begin(peer, rank());
  }
  const bool reads_input = aligned(input, element);
  const bool reduces_there = reads_input && aligned(output, element);
  alignas(kCacheLine) std::byte hot[kHotBytes];
  for (std::size_t done = 0; done < length; done += kHotBytes) {
    const std::size_t now = std::min(kHotBytes, length - done);
    std::byte* const result = reduces_there ? output + done : hot;
    if (!reads_input) copy_bytes(hot, input + done, now);
    sources_[static_cast<std::size_t>(rank())] = reads_input ? input + done : hot;
    order_.reduce(call.op, call.type, sources_, result, now / element, call.scale);
    for (std::byte* const place : places) copy_bytes(place + done, result, now);
    if (!reduces_there) copy_bytes(output + done, result, now);
    for (const void*& source : sources_) source = bytes_of(source) + now;
  }
}

// Each step shows the results of a chunk and the input of the next chunk. The caller has shown the
// input of the first chunk.
//
// A rank puts its result into the slots from which it has read the input. So a cache line moves
// between two processors only, each of which reads it before writing it. Writing a line that others
// have only read took five times as long.
Result<void> Communicator::allreduce_sliced(const Call& call, const std::byte* input,
                                            std::byte* output) {
  const Slices slices(call.count * element_size(call.type), slots_);
  const Slots& slots = slices.slots();
  // An output that is the input too has been read just before.
  const OutputCopy copy(input == output ? 0 : 2 * call.count * element_size(call.type), size());
  for (std::size_t chunk = 0; chunk < slices.chunks(); ++chunk) {
    const auto [begin, length] = slices.slice(chunk, rank());
    const Area shown = steps_.theirs(rank());
    const Area next = steps_.mine();
    places_.clear();
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) places_.push_back(steps_.theirs(peer).input + slots.begin(peer, rank()));
    }
    reduce_slot(call, slots, input + begin, output + begin, places_, length);
    slices.show(next, input, chunk + 1, rank());
    HVD_CHECK(step(call));
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const auto [at, bytes] = slices.slice(chunk, peer);
      copy(output + at, shown.input + slots.begin(rank(), peer), bytes);
    }
  }
  return {};
}

}  // namespace libhvd
