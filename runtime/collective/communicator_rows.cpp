// Communicator's collectives in which each rank gets rows of its own: reducescatter and alltoall.
// In each step a rank shows each other rank the next piece of that rank's data.
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
#include <functional>
#include <limits>
#include <new>
#include <numeric>
#include <span>
#include <vector>

namespace libhvd {
namespace {

// A rank's part of some data, in bytes.
struct Part {
  std::size_t begin = 0;
  std::size_t length = 0;

  std::size_t end() const { return begin + length; }
  // Returns piece `index` of the part, in pieces of `bytes` bytes; empty after the end.
  Part piece(std::size_t index, std::size_t bytes) const {
    const std::size_t at = std::min(length, index * bytes);
    return {begin + at, std::min(bytes, length - at)};
  }
};

using Parts = std::vector<Part>;  // by rank

const Part& of(const Parts& parts, int rank) {
  return parts[static_cast<std::size_t>(rank)];
}

// The ranks' parts of rows that are divided evenly. The first ranks get a row more, if some are
// left.
class EvenParts {
 public:
  EvenParts(std::size_t rows, int ranks, std::size_t row_bytes)
      : least_(rows / static_cast<std::size_t>(ranks)),
        longer_(rows - least_ * static_cast<std::size_t>(ranks)),
        row_bytes_(row_bytes) {}

  std::size_t rows(int rank) const {
    return least_ + (static_cast<std::size_t>(rank) < longer_ ? 1 : 0);
  }
  friend Part of(const EvenParts& parts, int rank) {
    const auto before = static_cast<std::size_t>(rank);
    const std::size_t first = parts.least_ * before + std::min(before, parts.longer_);
    return {first * parts.row_bytes_, parts.rows(rank) * parts.row_bytes_};
  }

 private:
  std::size_t least_;
  std::size_t longer_;  // ranks that have one more
  std::size_t row_bytes_;
};

// Returns the parts of rows that lie one after the other.
Parts parts_of(std::span<const std::size_t> rows, std::size_t row_bytes) {
  Parts parts;
  parts.reserve(rows.size());
  std::size_t begin = 0;
  for (const std::size_t count : rows) {
    parts.push_back({begin, count * row_bytes});
    begin += count * row_bytes;
  }
  return parts;
}

// The steps that show all pieces: the same number for each group of ranks (Slots).
class Rounds {
 public:
  Rounds(const Slots& slots, std::size_t longest)
      : slots_(slots),
        groups_(static_cast<std::size_t>(slots.groups())),
        of_group_(count_pieces(longest, slots.bytes())) {}

  std::size_t count() const { return of_group_ * groups_; }

  // Returns the piece of the rank's part that is shown in this round; empty if it is the turn of
  // another group.
  Part piece_for(int rank, const Part& part, std::size_t round) const {
    const std::size_t group = group_of(round);
    const bool comes = static_cast<std::size_t>(slots_.group_of(rank)) == group;
    return comes ? part.piece(round - group * of_group_, slots_.bytes()) : Part{part.begin, 0};
  }

  // `parts`: Parts or EvenParts.
  void show(const Area& area, const auto& parts, const std::byte* input, std::size_t round,
            int own) const {
    if (round >= count()) return;
    area.used.input = static_cast<std::uint32_t>(slots_.all_bytes());
    const int first = static_cast<int>(group_of(round)) * slots_.ranks_in_group();
    const int end = std::min(slots_.ranks(), first + slots_.ranks_in_group());
    for (int rank = first; rank < end; ++rank) {
      if (rank == own) continue;
      const Part part = piece_for(rank, of(parts, rank), round);
      copy_bytes(area.input + slots_.begin(own, rank), input + part.begin, part.length);
    }
  }

 private:
  std::size_t group_of(std::size_t round) const { return groups_ == 1 ? 0 : round / of_group_; }

  const Slots& slots_;
  std::size_t groups_;
  std::size_t of_group_;
};

// Up to this many ranks, each rank reads what every rank is sent. With more ranks these would be
// millions of numbers, so each reads only what it is sent itself, and one more step shares the
// verdicts.
constexpr int kRanksThatSeeAll = 1024;

// The bytes beside the header of that step.
struct Verdict {
  std::uint64_t most;  // rows from one rank
  std::uint64_t fits;  // 1: all rows fit into the output
};
static_assert(sizeof(Verdict) <= kInlineBytes);

// The bytes beside the header of the first step of an alltoall.
struct Offer {
  std::uint64_t room;  // rows that fit into the output
  std::uint64_t even;  // the rows for each rank, or kUneven: their numbers are in the area
  // All rows if they are even and fit. Or else the address at which the others read them; or 0.
  std::uint64_t data;
};
static_assert(sizeof(Offer) <= kInlineBytes);
constexpr std::uint64_t kUneven = std::numeric_limits<std::uint64_t>::max();

const Offer& offer_in(const std::byte* inline_data) {
  return *std::launder(reinterpret_cast<const Offer*>(inline_data));
}
// Returns whether the offer has the rows themselves. `bytes`: of a row for each rank.
bool is_beside(const Offer& offer, std::size_t bytes) {
  return offer.even != kUneven && offer.even * bytes <= sizeof offer.data;
}

// If no rank sends more than this in an alltoall, all of it is shown with the call.
constexpr std::size_t kWithSplits = 8 * 1024;

}  // namespace

Result<void> Communicator::reducescatter(const void* input, std::size_t rows, std::size_t row_size,
                                         hvd_type type, hvd_op op, void* output,
                                         const CallOptions& options) {
  const std::size_t row_bytes = row_size * element_size(type);
  const EvenParts parts(rows, size(), row_bytes);
  Call call =
      reducescatter_call(input, rows, row_size, type, op, output, parts.rows(rank()), options);
  call.reproducible = reproducible_;
  const bool faulty = !call.fault.empty();
  const Part own = faulty ? Part{} : of(parts, rank());
  const std::size_t bytes = faulty ? 0 : rows * row_bytes;
  if (bytes <= kInlineBytes)
    return reducescatter_inline(call, input, bytes, output, own.begin, own.length);
  const Rounds rounds(slots_, of(parts, 0).length);
  HVD_CHECK(open_call(call, [&] {
    rounds.show(steps_.mine(), parts, bytes_of(input), 0, rank());
    steps_.will_read(0, own.length);
  }));
  for (std::size_t round = 0; round < rounds.count(); ++round) {
    if (round > 0) HVD_CHECK(step(call));
    const Part piece = rounds.piece_for(rank(), own, round);
    reduce_slot(call, slots_, bytes_of(input) + piece.begin,
                bytes_of(output) + (piece.begin - own.begin), {}, piece.length);
    rounds.show(steps_.mine(), parts, bytes_of(input), round + 1, rank());
  }
  return {};
}

// Moves the data beside the header.
Result<void> Communicator::reducescatter_inline(const Call& call, const void* input,
                                                std::size_t bytes, void* output, std::size_t begin,
                                                std::size_t length) {
  copy_bytes(own_inline_data(), input, bytes);
  HVD_CHECK(open_call(call));
  for (int rank = 0; rank < size(); ++rank)
    sources_[static_cast<std::size_t>(rank)] = inline_data(rank) + begin;
  alignas(8) std::byte result[kInlineBytes];
  order_.reduce(call.op, call.type, sources_, result, length / element_size(call.type), call.scale);
  copy_bytes(output, result, length);
  return {};
}

// What an alltoall moves, and how.
struct Communicator::Exchange {
  const std::byte* input;
  std::byte* output;                       // null: this rank takes part, but writes nothing
  Parts out;                               // of the input, by the rank that gets them
  Parts in;                                // of the output, by the rank that sends them
  std::span<const std::size_t> addresses;  // of the inputs that the others read there; or 0
  std::span<const std::size_t> before;     // rows of each input before this rank's
  std::size_t row_bytes;
  std::uint64_t most;          // rows from one rank to another, in chunks
  std::uint64_t most_offered;  // the same of inputs that the others read
  OutputCopy copy;

  bool offers(int rank) const { return addresses[static_cast<std::size_t>(rank)] != 0; }
};

// The numbers of rows in an alltoall, by rank.
struct Communicator::RowNumbers {
  std::span<std::size_t> sent;       // to each rank
  std::span<std::size_t> coming;     // from each rank to this one
  std::span<std::size_t> before;     // from each rank to those before this one
  std::span<std::size_t> sum;        // from each rank to all
  std::span<std::size_t> addresses;  // of Offer; or 0
  std::uint64_t most = 0;            // rows from one rank to another, in chunks
  std::uint64_t most_offered = 0;    // the same of those that are read directly
  bool fit = true;                   // all rows fit into the outputs

  bool even() const {
    return std::adjacent_find(sent.begin(), sent.end(), std::not_equal_to<>()) == sent.end();
  }
  void add(std::size_t from, std::uint64_t count) {
    std::uint64_t& longest = addresses[from] != 0 ? most_offered : most;
    longest = std::max(longest, count);
  }
};

Result<void> Communicator::alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                                    std::size_t row_size, hvd_type type, void* output,
                                    std::size_t output_rows, std::size_t* received,
                                    const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(size());
  Call call =
      alltoall_call(input, splits, rows, row_size, type, output, output_rows, size(), options);
  numbers_.assign(5 * ranks, 0);
  const auto part = [&](std::size_t index) {
    return std::span(numbers_).subspan(index * ranks, ranks);
  };
  RowNumbers numbers{part(0), part(1), part(2), part(3), part(4)};
  if (call.fault.empty()) {
    if (splits != nullptr) {
      std::copy_n(splits, ranks, numbers.sent.begin());
    } else {
      std::fill(numbers.sent.begin(), numbers.sent.end(), rows / ranks);
    }
  }
  const bool even = numbers.even();
  const std::size_t split_bytes = ranks * sizeof(std::uint64_t);
  const std::size_t row_bytes = row_size * element_size(type);
  const bool sees_all = size() <= kRanksThatSeeAll;
  // What this rank sends itself, in its input.
  const auto sent_before = numbers.sent.first(static_cast<std::size_t>(rank()));
  const Part own_part{
      std::accumulate(sent_before.begin(), sent_before.end(), std::size_t{0}) * row_bytes,
      numbers.sent[sent_before.size()] * row_bytes};
  // The most bytes that a rank shows with the call; the same on all ranks.
  const bool together = sees_all && !alone() && split_bytes < chunks_.bytes;
  const std::size_t most_shown = together ? std::min(kWithSplits, chunks_.bytes - split_bytes) : 0;
  const auto shows = [&](std::uint64_t all_rows) {
    return all_rows <= most_shown && all_rows * row_bytes <= most_shown;
  };
  // Where a rank's rows are in its area.
  const auto shown_at = [&](const Offer& offer) { return offer.even == kUneven ? split_bytes : 0; };
  const std::size_t offered_bytes = call.fault.empty() && sees_all ? rows * row_bytes : 0;
  const Offer own{call.output_rows, even ? numbers.sent.front() : kUneven,
                  offer(call, input, offered_bytes)};
  HVD_CHECK(open_call(call, [&] {
    std::byte* const beside = own_inline_data();
    new (beside) Offer(own);
    if (!even) chunks_.stage(steps_.mine(), bytes_of(numbers.sent.data()), split_bytes, 0);
    if (!call.fault.empty() || !shows(rows)) return;
    const std::size_t bytes = rows * row_bytes;
    if (is_beside(own, ranks * row_bytes))
      return copy_bytes(beside + offsetof(Offer, data), input, bytes);
    const Area mine = steps_.mine();
    std::byte* const place = mine.input + shown_at(own);
    copy_bytes(place, input, own_part.begin);
    copy_bytes(place + own_part.end(), bytes_of(input) + own_part.end(), bytes - own_part.end());
    mine.used.input = static_cast<std::uint32_t>(shown_at(own) + bytes);
    // Right only if the others put theirs at the same place: it is a hint.
    steps_.will_read(shown_at(own) + own_part.begin, own_part.length);
  }));
  direct_.begin();
  HVD_CHECK(learn_numbers(call, numbers, row_bytes));
  if (received != nullptr) std::copy(numbers.coming.begin(), numbers.coming.end(), received);
  if (!numbers.fit) return explain(call);

  const Output target = find_output(call, output, options.allocator, input, row_bytes);
  const OutputCopy copy((rows + call.needed_rows) * row_bytes, size());
  if (together && std::all_of(numbers.sum.begin(), numbers.sum.end(), shows)) {
    // The others' rows first: while they come, the processor copies this rank's own.
    const auto before = numbers.coming.first(static_cast<std::size_t>(rank()) + 1);
    std::size_t begin = std::accumulate(before.begin(), before.end(), std::size_t{0}) * row_bytes;
    int from = rank();
    for (int turn = 0; target.bytes != nullptr && turn < size(); ++turn) {
      from = next_rank(from);
      if (from == 0) begin = 0;
      const Offer& theirs = offer_in(inline_data(from));
      const std::byte* const sent = from == rank() ? bytes_of(input)
                                    : is_beside(theirs, ranks * row_bytes)
                                        ? inline_data(from) + offsetof(Offer, data)
                                        : steps_.theirs(from).input + shown_at(theirs);
      const auto index = static_cast<std::size_t>(from);
      const std::size_t bytes = numbers.coming[index] * row_bytes;
      copy(target.bytes + begin, sent + numbers.before[index] * row_bytes, bytes);
      begin += bytes;
    }
    return target.outcome;
  }
  HVD_CHECK(exchange(call, {bytes_of(input), target.bytes, parts_of(numbers.sent, row_bytes),
                            parts_of(numbers.coming, row_bytes), numbers.addresses, numbers.before,
                            row_bytes, numbers.most, numbers.most_offered, copy}));
  direct_.end();
  return target.outcome;
}

// Learns from the offers how many rows each rank sends. If some ranks send uneven numbers, these
// are in the areas, and more steps may be needed to show them all.
Result<void> Communicator::learn_numbers(Call& call, RowNumbers& numbers, std::size_t row_bytes) {
  const auto ranks = static_cast<std::size_t>(size());
  const auto offer_of = [&](std::size_t rank) -> const Offer& {
    return offer_in(inline_data(static_cast<int>(rank)));
  };
  bool all_even = true;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Offer& theirs = offer_of(rank);
    numbers.addresses[rank] = is_beside(theirs, ranks * row_bytes) ? 0 : theirs.data;
    all_even = all_even && theirs.even != kUneven;
  }
  if (all_even) {
    std::uint64_t needed = 0;  // by each rank
    std::uint64_t least_room = kAnyRoom;
    for (std::size_t from = 0; from < ranks; ++from) {
      const Offer& theirs = offer_of(from);
      numbers.add(from, theirs.even);
      numbers.coming[from] = theirs.even;
      numbers.before[from] = theirs.even * static_cast<std::size_t>(rank());
      numbers.sum[from] = theirs.even * ranks;
      needed = add_rows(needed, theirs.even);
      least_room = std::min(least_room, theirs.room);
    }
    call.needed_rows = needed;
    numbers.fit = needed <= least_room && memory_holds(needed, row_bytes);
    return {};
  }
  // Reads how many rows rank `to` gets from each rank, at position `at` of the areas.
  const auto look_at = [&](int to, std::size_t at) {
    std::uint64_t needed = 0;
    for (std::size_t from = 0; from < ranks; ++from) {
      std::uint64_t count = offer_of(from).even;
      if (count == kUneven)
        std::memcpy(&count, steps_.theirs(static_cast<int>(from)).input + at, sizeof count);
      numbers.add(from, count);
      needed = add_rows(needed, count);
      numbers.sum[from] = add_rows(numbers.sum[from], count);
      if (to == rank()) numbers.coming[from] = count;
      if (to < rank()) numbers.before[from] += count;
    }
    if (to == rank()) call.needed_rows = needed;
    const std::uint64_t room = offer_of(static_cast<std::size_t>(to)).room;
    numbers.fit = numbers.fit && needed <= room && memory_holds(needed, row_bytes);
  };
  const bool sees_all = size() <= kRanksThatSeeAll;
  const std::size_t split_bytes = ranks * sizeof(std::uint64_t);
  const auto in_chunk = static_cast<int>(chunks_.bytes / sizeof(std::uint64_t));
  for (std::size_t index = 0; index < chunks_.count(split_bytes); ++index) {
    if (index > 0) {
      if (!numbers.even())
        chunks_.stage(steps_.mine(), bytes_of(numbers.sent.data()), split_bytes, index);
      HVD_CHECK(step(call));
    }
    const int first = static_cast<int>(index) * in_chunk;
    for (int to = first; to < std::min(size(), first + in_chunk); ++to) {
      if (sees_all || to == rank())
        look_at(to, static_cast<std::size_t>(to - first) * sizeof(std::uint64_t));
    }
  }
  if (sees_all) return {};
  const Verdict own{numbers.most, numbers.fit ? 1U : 0U};
  std::memcpy(own_inline_data(), &own, sizeof own);
  HVD_CHECK(step(call));
  for (int rank = 0; rank < size(); ++rank) {
    Verdict theirs;
    std::memcpy(&theirs, inline_data(rank), sizeof theirs);
    numbers.most = std::max(numbers.most, theirs.most);
    numbers.fit = numbers.fit && theirs.fits == 1;
  }
  return {};
}

Result<void> Communicator::exchange(const Call& call, const Exchange& exchange) {
  const Part& own = of(exchange.out, rank());
  if (exchange.output != nullptr)
    exchange.copy(exchange.output + of(exchange.in, rank()).begin, exchange.input + own.begin,
                  own.length);
  if (alone()) return {};
  HVD_CHECK(exchange_chunks(call, exchange, false));
  if (exchange.most_offered == 0) return {};
  bool could_read = true;
  for (int peer = 0; exchange.output != nullptr && peer < size(); ++peer) {
    const auto from = static_cast<std::size_t>(peer);
    if (peer == rank() || !exchange.offers(peer)) continue;
    const Part& part = of(exchange.in, peer);
    const std::size_t at = exchange.before[from] * exchange.row_bytes;
    could_read = could_read && direct_.read(peer, exchange.addresses[from] + at,
                                            exchange.output + part.begin, part.length);
  }
  HVD_TRY(const bool all_could, end_direct_reads(call, could_read));
  return all_could ? Result<void>{} : exchange_chunks(call, exchange, true);
}

// Moves the rows of the ranks that have offered them, or of the others.
Result<void> Communicator::exchange_chunks(const Call& call, const Exchange& exchange,
                                           bool offered) {
  const std::uint64_t most = offered ? exchange.most_offered : exchange.most;
  const Rounds rounds(slots_, most * exchange.row_bytes);
  for (std::size_t round = 0; round < rounds.count(); ++round) {
    if (exchange.offers(rank()) == offered)
      rounds.show(steps_.mine(), exchange.out, exchange.input, round, rank());
    HVD_CHECK(step(call));
    for (int peer = 0; exchange.output != nullptr && peer < size(); ++peer) {
      if (peer == rank() || exchange.offers(peer) != offered) continue;
      const Part piece = rounds.piece_for(rank(), of(exchange.in, peer), round);
      exchange.copy(exchange.output + piece.begin,
                    steps_.theirs(peer).input + slots_.begin(peer, rank()), piece.length);
    }
  }
  return {};
}

}  // namespace libhvd
