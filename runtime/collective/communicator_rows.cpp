// Communicator's collectives in which every rank gets other rows: reducescatter and alltoall. In
// each step a rank shows every other one the next piece of what is for that one.
#include "collective/calls.hpp"
#include "collective/communicator.hpp"
#include "collective/element.hpp"
#include "collective/output.hpp"
#include "collective/staging.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace libhvd {
namespace {

// A rank's part of some data, in bytes.
struct Part {
  std::size_t begin = 0;
  std::size_t length = 0;

  // What of it piece `index` of so many bytes is.
  Part piece(std::size_t index, std::size_t bytes) const {
    const std::size_t at = std::min(length, index * bytes);
    return {begin + at, std::min(bytes, length - at)};
  }
};

using Parts = std::vector<Part>;  // by rank

const Part& of(const Parts& parts, int rank) {
  return parts[static_cast<std::size_t>(rank)];
}

// Parts that lie one after the other.
Parts parts_of(const std::vector<std::size_t>& rows, std::size_t row_bytes) {
  Parts parts;
  std::size_t begin = 0;
  for (const std::size_t count : rows) {
    parts.push_back({begin, count * row_bytes});
    begin += count * row_bytes;
  }
  return parts;
}

void show_pieces(Area& area, const Slots& slots, const Parts& parts, const std::byte* input,
                 std::size_t index, int own) {
  area.used.input = static_cast<std::uint32_t>(slots.all_bytes());
  for (int rank = 0; rank < static_cast<int>(parts.size()); ++rank) {
    if (rank == own) continue;
    const Part piece = of(parts, rank).piece(index, slots.bytes());
    copy_bytes(area.input + slots.begin(own, rank), input + piece.begin, piece.length);
  }
}

}  // namespace

Outcome Communicator::reducescatter(const void* input, std::size_t rows, std::size_t row_size,
                                    hvd_type type, hvd_op op, void* output,
                                    const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<std::size_t> shares;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    shares.push_back(rows / ranks + (rank < rows % ranks ? 1 : 0));
  const Call call = reducescatter_call(input, rows, row_size, type, op, output,
                                       shares[static_cast<std::size_t>(rank())], options);
  const Parts parts = parts_of(shares, call.fault.empty() ? row_size * element_size(type) : 0);
  const Slots slots(size());
  show_pieces(steps_.mine(), slots, parts, bytes_of(input), 0, rank());
  HVD_CHECK(open_call(call));
  const std::size_t longest = parts[0].length;
  for (std::size_t index = 0; index * slots.bytes() < longest; ++index) {
    if (index > 0) HVD_CHECK(step(call));
    const Part& own = of(parts, rank());
    const Part piece = own.piece(index, slots.bytes());
    reduce_slot(call, slots, bytes_of(input) + piece.begin,
                bytes_of(output) + (piece.begin - own.begin), piece.length);
    show_pieces(steps_.mine(), slots, parts, bytes_of(input), index + 1, rank());
  }
  return Done{};
}

Outcome Communicator::alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                               std::size_t row_size, hvd_type type, void* output,
                               std::size_t output_rows, std::size_t* received,
                               const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(size());
  Call call =
      alltoall_call(input, splits, rows, row_size, type, output, output_rows, size(), options);
  if (call.fault.empty() && ranks * sizeof(std::uint64_t) > kChunkBytes)
    call.fault = "an alltoall is for " + std::to_string(kChunkBytes / sizeof(std::uint64_t)) +
                 " ranks at most";
  std::vector<std::size_t> sent(ranks, 0);
  if (call.fault.empty()) {
    for (std::size_t rank = 0; rank < ranks; ++rank)
      sent[rank] = splits != nullptr ? splits[rank] : rows / ranks;
    std::memcpy(steps_.mine().input, sent.data(), ranks * sizeof(std::size_t));
    steps_.mine().used.input = static_cast<std::uint32_t>(ranks * sizeof(std::size_t));
  }
  std::memcpy(own_inline_data(), &call.output_rows, sizeof call.output_rows);
  HVD_CHECK(open_call(call));

  const auto split = [&](int from, int to) {
    std::size_t count;
    std::memcpy(&count, steps_.theirs(from).input + static_cast<std::size_t>(to) * sizeof count,
                sizeof count);
    return count;
  };
  std::vector<std::size_t> coming;
  std::size_t most = 0;  // rows from one rank to another
  bool fits = true;
  for (int to = 0; to < size(); ++to) {
    std::size_t needed = 0;
    for (int from = 0; from < size(); ++from) {
      needed += split(from, to);
      most = std::max(most, split(from, to));
      if (to == rank()) coming.push_back(split(from, to));
    }
    if (to == rank()) call.needed_rows = needed;
    std::uint64_t room;
    std::memcpy(&room, inline_data(to), sizeof room);
    fits = fits && needed <= room;
  }
  if (received != nullptr) std::copy(coming.begin(), coming.end(), received);
  if (!fits) return explain(call);

  const std::size_t row_bytes = row_size * element_size(type);
  const Output target = find_output(call, output, options.allocator, input, row_bytes);
  const Parts out = parts_of(sent, row_bytes);
  const Parts in = parts_of(coming, row_bytes);
  const auto take = [&](std::size_t begin, const std::byte* from, std::size_t length) {
    if (target.bytes != nullptr) copy_bytes(target.bytes + begin, from, length);
  };
  const Part& own = of(out, rank());
  take(of(in, rank()).begin, bytes_of(input) + own.begin, own.length);
  const Slots slots(size());
  for (std::size_t index = 0; !alone() && index * slots.bytes() < most * row_bytes; ++index) {
    show_pieces(steps_.mine(), slots, out, bytes_of(input), index, rank());
    HVD_CHECK(step(call));
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      const Part piece = of(in, peer).piece(index, slots.bytes());
      take(piece.begin, steps_.theirs(peer).input + slots.begin(peer, rank()), piece.length);
    }
  }
  return target.outcome;
}

}  // namespace libhvd
