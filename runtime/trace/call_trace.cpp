#include "trace/call_trace.hpp"

#include "trace/timeline.hpp"

#include <algorithm>

namespace libhvd {
namespace {

constexpr int kRankBits = 16;
constexpr std::int64_t kLatest = INT64_MAX >> kRankBits;  // 39 hours
constexpr std::size_t kWindow = 8192;

std::int64_t pack(std::int64_t at_ns, int rank) {
  return (std::clamp<std::int64_t>(at_ns, 0, kLatest) << kRankBits) | rank;
}

struct Range {
  std::int64_t stream, first, last;
};

// A rank's own part of each stream.
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
    Stretch& stretch = arrivals.streams_[static_cast<StreamId>(stream)];
    stretch.first = static_cast<std::uint32_t>(range.first);
    stretch.latest.assign(static_cast<std::size_t>(range.last - range.first + 1), -1);
  }
  for (const Arrival& arrival : own) {
    Stretch& stretch = arrivals.streams_[arrival.stream];
    stretch.latest[arrival.sequence - stretch.first] = pack(arrival.at_ns, communicator.rank());
  }
  for (auto& [stream, stretch] : arrivals.streams_) {
    for (std::size_t begin = 0; begin < stretch.latest.size(); begin += kWindow) {
      const std::size_t count = std::min(kWindow, stretch.latest.size() - begin);
      std::int64_t* const window = stretch.latest.data() + begin;
      HVD_CHECK(
          communicator.allreduce(window, window, count, HVD_INT64, HVD_MAX, {.name = "timeline"}));
    }
  }
  return arrivals;
}

void EngineTrace::negotiated(std::string_view kind, std::string_view name,
                             std::uint64_t submitted_ns) {
  ++negotiated_;
  if (submitted_ns == 0 || !recorder_->on()) return;
  Event event{.begin_ns = submitted_ns,
              .sequence = negotiated_,
              .stream = stream_,
              .kind = EventKind::negotiation};
  // Two clocks, which may be a microsecond apart.
  event.duration_ns = std::max(submitted_ns, lane_->now_ns()) - submitted_ns;
  lane_->add(event, kind, name, recorder_->room());
}

void EngineTrace::executed(std::uint64_t begin_ns, std::string_view kind, std::string_view name,
                           const CallFacts& facts, bool completed) {
  ++executed_;
  if (begin_ns == 0) return;
  lane_->add_ended(operation(begin_ns, facts, completed), kind, name, recorder_->room());
}

void EngineTrace::executed_fused(std::uint64_t begin_ns, std::string_view kind, std::uint32_t count,
                                 const CallFacts& facts, bool completed) {
  ++executed_;
  Event event = operation(begin_ns, facts, completed);
  executed_ += count - 1;
  if (begin_ns == 0) return;
  event.fused = true;
  event.name = count;
  lane_->add_ended(event, kind, "", recorder_->room());
}

Event EngineTrace::operation(std::uint64_t begin_ns, const CallFacts& facts, bool completed) const {
  return {.begin_ns = begin_ns,
          .bytes = facts.bytes,
          .sequence = executed_,
          .stream = stream_,
          .kind = EventKind::operation,
          .type = facts.type,
          .op = facts.op,
          .failed = !completed};
}

}  // namespace libhvd
