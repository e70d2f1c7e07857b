#include "collective/communicator.hpp"

#include "base/text.hpp"
#include "collective/arguments.hpp"
#include "collective/element.hpp"
#include "collective/staging.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace libhvd {
namespace {

static_assert(sizeof(CallRecord) <= kRecordBytes);

// Beside the brief of an allgather.
struct Rows {
  std::uint64_t own;
  std::uint64_t room;  // of the output
};
static_assert(sizeof(Rows) <= kInlineBytes);

}  // namespace

Communicator::Communicator(const std::shared_ptr<Segment>& segment, int rank, int lane,
                           std::shared_ptr<SharedMemory> memory)
    : steps_(segment, rank, lane),
      memory_(std::move(memory)),
      sources_(static_cast<std::size_t>(steps_.size())) {}

Communicator::Communicator(const std::shared_ptr<Segment>& segment, int rank)
    : Communicator(segment, rank, 0, std::make_shared<SharedMemory>(segment)) {}

std::unique_ptr<Communicator> Communicator::second() const {
  return std::unique_ptr<Communicator>(new Communicator(steps_.segment(), rank(), 1, memory_));
}

std::byte* Communicator::own_inline_data() {
  return steps_.brief().bytes + offsetof(Shown, data);
}

const std::byte* Communicator::inline_data(int rank) const {
  return shown_in(steps_.theirs(rank)).data;
}

Outcome Communicator::step(const Call& call) {
  if (const auto failure = steps_.step()) {
    return fail(HVD_ERROR_PEER,
                describe_call(make_record(call)) + ": " + describe_failure(*failure));
  }
  return Done{};
}

Outcome Communicator::open_call(const Call& call) {
  const CallBrief brief = make_brief(call);
  std::memcpy(steps_.brief().bytes, &brief, sizeof brief);
  HVD_CHECK(step(call));
  bool fits = brief.faulty == 0;
  for (int rank = 0; rank < size(); ++rank) {
    fits = fits && shown_in(steps_.theirs(rank)).call == brief;
  }
  if (!fits) return explain(call);
  return Done{};
}

// All ranks come here when one does, as all have seen the same briefs.
Error Communicator::explain(const Call& call) {
  new (steps_.mine().record) CallRecord(make_record(call));
  steps_.mine().used.record = sizeof(CallRecord);
  if (const Outcome stepped = step(call); !stepped.ok()) return stepped.error();
  std::vector<const CallRecord*> calls;
  for (int rank = 0; rank < size(); ++rank) {
    calls.push_back(std::launder(reinterpret_cast<const CallRecord*>(steps_.theirs(rank).record)));
  }
  return find_disagreement(calls);
}

Outcome Communicator::barrier(const CallOptions& options) {
  return open_call({.kind = Collective::barrier, .name = options.name, .fault = options.fault});
}

Outcome Communicator::wait_for_news(const std::function<bool()>& ready) {
  if (const auto failure = steps_.wait_for_anybody(ready))
    return fail(HVD_ERROR_PEER, describe_failure(*failure));
  return Done{};
}

// Few of them stand beside the brief, more in the area.
Outcome Communicator::exchange_news(std::span<const std::uint64_t> own,
                                    const std::function<void(std::uint64_t)>& each) {
  struct Beside {
    std::uint64_t count;
    std::uint64_t numbers[2];
  };
  static_assert(sizeof(Beside) <= kInlineBytes);
  Beside mine{.count = own.size(), .numbers = {}};
  Area& area = steps_.mine();
  if (own.size() <= std::size(mine.numbers)) {
    std::copy(own.begin(), own.end(), mine.numbers);
  } else {
    std::memcpy(area.input, own.data(), own.size_bytes());
    area.used.input = static_cast<std::uint32_t>(own.size_bytes());
  }
  std::memcpy(own_inline_data(), &mine, sizeof mine);
  HVD_CHECK(open_call({.kind = Collective::news}));
  for (int rank = 0; rank < size(); ++rank) {
    Beside theirs;
    std::memcpy(&theirs, inline_data(rank), sizeof theirs);
    const bool beside = theirs.count <= std::size(theirs.numbers);
    const std::byte* const numbers =
        beside ? inline_data(rank) + offsetof(Beside, numbers) : steps_.theirs(rank).input;
    for (std::uint64_t i = 0; i < theirs.count; ++i) {
      std::uint64_t number;
      std::memcpy(&number, numbers + i * sizeof number, sizeof number);
      each(number);
    }
  }
  return Done{};
}

Outcome Communicator::broadcast(void* buffer, std::size_t count, hvd_type type, int root,
                                const CallOptions& options) {
  Call call{.kind = Collective::broadcast,
            .type = type,
            .root = root,
            .count = count,
            .name = options.name,
            .fault = options.fault};
  if (call.fault.empty()) call.fault = check_broadcast(buffer, count, type, root, size());
  const std::size_t bytes = call.fault.empty() ? count * element_size(type) : 0;
  if (rank() == root && !alone()) stage_chunk(steps_.mine(), bytes_of(buffer), bytes, 0);
  HVD_CHECK(open_call(call));
  if (alone()) return Done{};
  return steps_.on_one_host() ? broadcast_on_host(call, bytes_of(buffer), bytes)
                              : broadcast_chunks(call, bytes_of(buffer), bytes);
}

Outcome Communicator::broadcast_chunks(const Call& call, std::byte* buffer, std::size_t bytes) {
  for (std::size_t index = 0; index < chunks_in(bytes); ++index) {
    if (index > 0) HVD_CHECK(step(call));
    if (rank() == call.root) {
      stage_chunk(steps_.mine(), buffer, bytes, index + 1);
    } else {
      std::memcpy(buffer + index * kChunkBytes, steps_.theirs(call.root).input,
                  chunk_length(bytes, index));
    }
  }
  return Done{};
}

// After the first chunk a step carries as much as the areas of all ranks hold, since nobody else
// writes into them: waiting for each other costs more than copying.
Outcome Communicator::broadcast_on_host(const Call& call, std::byte* buffer, std::size_t bytes) {
  const bool sends = rank() == call.root;
  const std::size_t stretch = 2 * kChunkBytes * static_cast<std::size_t>(size());
  const auto show = [&](std::size_t begin) {
    const std::size_t end = std::min(bytes, begin + stretch);
    for (int rank = 0; begin < end; ++rank) {
      Area& area = steps_.next_of(rank);
      for (std::byte* place : {area.input, area.result}) {
        const std::size_t length = std::min(kChunkBytes, end - begin);
        copy_bytes(place, buffer + begin, length);
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
        copy_bytes(buffer + begin, place, length);
        begin += length;
      }
    }
  };
  if (!sends) copy_bytes(buffer, steps_.theirs(call.root).input, chunk_length(bytes, 0));
  for (std::size_t begin = kChunkBytes; begin < bytes; begin += stretch) {
    if (sends) show(begin);
    HVD_CHECK(step(call));
    if (!sends) take(begin);
  }
  return Done{};
}

Outcome Communicator::allgather(const void* input, std::size_t rows, std::size_t row_size,
                                hvd_type type, void* output, std::size_t output_rows,
                                std::size_t* rows_by_rank, const CallOptions& options) {
  Call call{.kind = Collective::allgather,
            .type = type,
            .count = rows,
            .row_size = row_size,
            .output_rows = output_rows,
            .name = options.name,
            .fault = options.fault};
  if (call.fault.empty())
    call.fault = check_allgather(input, rows, row_size, type, output, output_rows);
  const bool faulty = !call.fault.empty();
  const std::size_t row_bytes = faulty ? 0 : row_size * element_size(type);
  const Rows own{rows, output_rows};
  std::memcpy(own_inline_data(), &own, sizeof own);
  stage_chunk(steps_.mine(), bytes_of(input), rows * row_bytes, 0);
  HVD_CHECK(open_call(call));

  std::vector<std::size_t> bytes;
  std::uint64_t needed = 0;
  std::uint64_t least_room = output_rows;
  for (int rank = 0; rank < size(); ++rank) {
    Rows theirs;
    std::memcpy(&theirs, inline_data(rank), sizeof theirs);
    if (rows_by_rank != nullptr) rows_by_rank[rank] = theirs.own;
    bytes.push_back(theirs.own * row_bytes);
    needed += theirs.own;
    least_room = std::min(least_room, theirs.room);
  }
  call.needed_rows = needed;
  if (least_room < needed) return explain(call);
  const std::size_t longest = *std::max_element(bytes.begin(), bytes.end());
  for (std::size_t index = 0; index < chunks_in(longest); ++index) {
    if (index > 0) HVD_CHECK(step(call));
    stage_chunk(steps_.mine(), bytes_of(input), rows * row_bytes, index + 1);
    std::byte* part = bytes_of(output);
    for (int rank = 0; rank < size(); ++rank) {
      const std::size_t total = bytes[static_cast<std::size_t>(rank)];
      copy_bytes(part + std::min(index * kChunkBytes, total), steps_.theirs(rank).input,
                 chunk_length(total, index));
      part += total;
    }
  }
  return Done{};
}

}  // namespace libhvd
