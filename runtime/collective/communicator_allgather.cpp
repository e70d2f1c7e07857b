// Communicator::allgather. A rank's rows go beside the header if they are few bytes. Others are
// read where they are (direct_reads.hpp), or move through the areas a chunk at a time.
#include "collective/arguments.hpp"
#include "collective/call.hpp"
#include "collective/communicator.hpp"
#include "collective/element.hpp"
#include "collective/output_copy.hpp"
#include "collective/rows_output.hpp"
#include "collective/staging.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace libhvd {
namespace {

// The bytes beside the header of an allgather.
struct Rows {
  std::uint64_t own;
  std::uint64_t room;  // of the output
  // The rows if they fit, or else the address at which the others read them, or 0.
  std::uint64_t data;
};
static_assert(sizeof(Rows) <= kInlineBytes);

}  // namespace

// Where the rows of all ranks go, and how they are copied.
struct Communicator::Gathering {
  const std::byte* input;
  std::byte* output;                       // null: this rank takes part, but writes nothing
  const std::vector<GatheredPart>& parts;  // by rank
  OutputCopy copy;
};

Result<void> Communicator::allgather(const void* input, std::size_t rows, std::size_t row_size,
                                     hvd_type type, void* output, std::size_t output_rows,
                                     std::size_t* rows_by_rank, const CallOptions& options) {
  Call call = allgather_call(input, rows, row_size, type, output, output_rows, options);
  const bool faulty = !call.fault.empty();
  const std::size_t row_bytes = faulty ? 0 : row_size * element_size(type);
  const std::size_t own_bytes = rows * row_bytes;
  const Rows own{rows, call.output_rows, offer(call, input, own_bytes)};
  HVD_CHECK(open_call(call, [&] {
    new (own_inline_data()) Rows(own);
    if (own_bytes <= sizeof own.data) {
      copy_bytes(own_inline_data() + offsetof(Rows, data), input, own_bytes);
    } else if (own.data == 0) {
      chunks_.stage(steps_.mine(), bytes_of(input), own_bytes, 0);
      steps_.will_read(0, own_bytes);
    }
  }));
  direct_.begin();

  const auto shown_by = [&](int rank) -> const Rows& {
    return *std::launder(reinterpret_cast<const Rows*>(inline_data(rank)));
  };
  std::uint64_t needed = 0;
  std::uint64_t most = 0;  // of one rank
  std::uint64_t least_room = kAnyRoom;
  for (int rank = 0; rank < size(); ++rank) {
    const Rows& theirs = shown_by(rank);
    if (rows_by_rank != nullptr) rows_by_rank[rank] = theirs.own;
    needed = add_rows(needed, theirs.own);
    most = std::max(most, theirs.own);
    least_room = std::min(least_room, theirs.room);
  }
  call.needed_rows = needed;
  if (least_room < needed || !memory_holds(needed, row_bytes)) return explain(call);
  const Output target = find_output(call, output, options.allocator, input, row_bytes);
  if (most * row_bytes <= sizeof own.data) {
    std::byte* place = target.bytes;
    for (int rank = 0; place != nullptr && rank < size(); ++rank) {
      const std::size_t bytes = shown_by(rank).own * row_bytes;
      copy_bytes(place, &shown_by(rank).data, bytes);
      place += bytes;
    }
    return target.outcome;
  }
  gathered_.clear();
  std::size_t begin = 0;
  for (int rank = 0; rank < size(); ++rank) {
    const Rows& theirs = shown_by(rank);
    const std::size_t bytes = theirs.own * row_bytes;
    const GatherWay way = bytes <= sizeof theirs.data ? GatherWay::beside_header
                          : theirs.data == 0          ? GatherWay::chunks
                                                      : GatherWay::direct;
    gathered_.push_back({begin, bytes, way, theirs.data});
    begin += bytes;
  }
  HVD_CHECK(gather(call, {bytes_of(input), target.bytes, gathered_,
                          OutputCopy((rows + needed) * row_bytes, size())}));
  direct_.end();
  return target.outcome;
}

Result<void> Communicator::gather(const Call& call, const Gathering& gathering) {
  bool reads_directly = false;
  bool could_read = true;
  for (int peer = 0; peer < size(); ++peer) {
    const GatheredPart& part = gathering.parts[static_cast<std::size_t>(peer)];
    reads_directly = reads_directly || part.way == GatherWay::direct;
    if (gathering.output == nullptr) continue;
    std::byte* const place = gathering.output + part.begin;
    if (part.way == GatherWay::beside_header) {
      copy_bytes(place, inline_data(peer) + offsetof(Rows, data), part.bytes);
    } else if (part.way == GatherWay::direct && peer == rank()) {
      gathering.copy(place, gathering.input, part.bytes);
    } else if (part.way == GatherWay::direct) {
      could_read = could_read && direct_.read(peer, part.address, place, part.bytes);
    }
  }
  HVD_CHECK(gather_chunks(call, gathering, GatherWay::chunks, true));
  if (!reads_directly) return {};
  HVD_TRY(const bool all_could, end_direct_reads(call, could_read));
  return all_could ? Result<void>{} : gather_chunks(call, gathering, GatherWay::direct, false);
}

// Moves the parts of this way, a chunk of each at a time. `first_is_shown`: the ranks have shown
// the first chunks with the call.
Result<void> Communicator::gather_chunks(const Call& call, const Gathering& gathering,
                                         GatherWay way, bool first_is_shown) {
  const std::vector<GatheredPart>& parts = gathering.parts;
  std::size_t longest = 0;
  for (const GatheredPart& part : parts) longest = std::max(longest, part.bytes_by(way));
  const std::size_t own = parts[static_cast<std::size_t>(rank())].bytes_by(way);
  if (!first_is_shown) chunks_.stage(steps_.mine(), gathering.input, own, 0);
  const std::size_t count = chunks_.count(longest);
  for (std::size_t index = 0; index < count; ++index) {
    if (index > 0 || !first_is_shown) HVD_CHECK(step(call));
    if (index + 1 < count) chunks_.stage(steps_.mine(), gathering.input, own, index + 1);
    // The others' parts first: while they come, the processor copies this rank's own.
    int peer = rank();
    for (int turn = 0; gathering.output != nullptr && turn < size(); ++turn) {
      peer = next_rank(peer);
      const GatheredPart& part = parts[static_cast<std::size_t>(peer)];
      const std::size_t bytes = part.bytes_by(way);
      const std::size_t begin = std::min(index * chunks_.bytes, bytes);
      gathering.copy(gathering.output + part.begin + begin,
                     peer == rank() ? gathering.input + begin : steps_.theirs(peer).input,
                     chunks_.length(bytes, index));
    }
  }
  return {};
}

}  // namespace libhvd
