#include "trace/arrivals.hpp"

#include "trace/gather.hpp"

#include <algorithm>
#include <cstddef>

namespace libhvd {
namespace {

constexpr int kRankBits = 16;
constexpr std::int64_t kLatest = INT64_MAX >> kRankBits;  // ns: 39 hours
constexpr std::size_t kWindow = 8192;

std::int64_t pack(std::int64_t at_ns, int rank) {
  return (std::clamp<std::int64_t>(at_ns, 0, kLatest) << kRankBits) | rank;
}

struct Range {
  std::int64_t stream, first, last;
};

// Returns the part of each stream that this rank has recorded.
std::vector<Range> ranges_of(std::span<const Arrival> arrivals) {
  std::map<StreamId, Range> ranges;
  for (const Arrival& arrival : arrivals) {
    const std::int64_t at = arrival.sequence;
    auto& range = ranges.try_emplace(arrival.stream, Range{arrival.stream, at, at}).first->second;
    range.first = std::min(range.first, at);
    range.last = std::max(range.last, at);
  }
  std::vector<Range> list;
  for (const auto& [stream, range] : ranges) list.push_back(range);
  return list;
}

}  // namespace

std::optional<LastArrival> LastArrivals::find(StreamId stream, std::uint32_t sequence) const {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || sequence < found->second.first) return std::nullopt;
  const std::size_t index = sequence - found->second.first;
  const auto& latest = found->second.latest;
  if (index >= latest.size() || latest[index] < 0) return std::nullopt;
  return LastArrival{static_cast<int>(latest[index] & ((1 << kRankBits) - 1)),
                     latest[index] >> kRankBits};
}

Result<LastArrivals> LastArrivals::among(Communicator& communicator, std::span<const Arrival> own) {
  const auto own_ranges = ranges_of(own);
  HVD_TRY(const auto ranges, gather_values<Range>(communicator, own_ranges));
  std::map<std::int64_t, Range> joined;
  for (const Range& range : ranges) {
    auto& all = joined.try_emplace(range.stream, range).first->second;
    all.first = std::min(all.first, range.first);
    all.last = std::max(all.last, range.last);
  }
  LastArrivals arrivals;
  for (const auto& [stream, range] : joined) {
    Recorded& recorded = arrivals.streams_[static_cast<StreamId>(stream)];
    recorded.first = static_cast<std::uint32_t>(range.first);
    recorded.latest.assign(static_cast<std::size_t>(range.last - range.first + 1), -1);
  }
  for (const Arrival& arrival : own) {
    Recorded& recorded = arrivals.streams_[arrival.stream];
    recorded.latest[arrival.sequence - recorded.first] = pack(arrival.at_ns, communicator.rank());
  }
  for (auto& [stream, recorded] : arrivals.streams_) {
    for (std::size_t begin = 0; begin < recorded.latest.size(); begin += kWindow) {
      const std::size_t count = std::min(kWindow, recorded.latest.size() - begin);
      std::int64_t* const window = recorded.latest.data() + begin;
      HVD_CHECK(
          communicator.allreduce(window, window, count, HVD_INT64, HVD_MAX, {.name = "timeline"}));
    }
  }
  return arrivals;
}

}  // namespace libhvd
