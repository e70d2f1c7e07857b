#include "trace/trace_rows.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace libhvd {
namespace {

// Above the numbers of threads, and below an engine's own row.
int first_negotiation_row(int engine) {
  constexpr int kOfAll = 1000;
  return engine == engine_row(0) ? kOfAll : engine + 1;
}

// "negotiation, process set 1" of "engine, process set 1".
std::string negotiation_title(const std::string& engine) {
  const std::size_t comma = engine.find(',');
  return "negotiation" + (comma == std::string::npos ? "" : engine.substr(comma));
}

bool is_negotiation(const Event& event) {
  return event.kind == EventKind::negotiation;
}

// Events come in the order in which they ended; of two that began and ended together the later one
// is around the other.
void sort_for_nesting(std::vector<Event>& events) {
  std::reverse(events.begin(), events.end());
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns() > b.end_ns();
  });
}

// Each into the first row that is free when it begins.
void lay_out(std::vector<Event> negotiations, const LaneRecording& source, std::size_t lane,
             std::vector<TraceRow>& rows) {
  sort_for_nesting(negotiations);
  std::vector<TraceRow> own;
  for (const Event& event : negotiations) {
    auto row = std::find_if(own.begin(), own.end(), [&](const TraceRow& candidate) {
      return candidate.events.back().end_ns() <= event.begin_ns;
    });
    if (row == own.end()) {
      if (own.size() == kMostNegotiationRows) continue;
      const int number = first_negotiation_row(source.number) + static_cast<int>(own.size());
      row = own.insert(
          row,
          {.number = number, .title = negotiation_title(source.title), .lane = lane, .events = {}});
    }
    row->events.push_back(event);
  }
  std::move(own.begin(), own.end(), std::back_inserter(rows));
}

}  // namespace

std::vector<TraceRow> arrange_rows(Recording& recording, std::uint64_t started_ns) {
  std::vector<TraceRow> rows;
  for (std::size_t lane = 0; lane < recording.lanes.size(); ++lane) {
    LaneRecording& source = recording.lanes[lane];
    std::vector<Event> events = std::exchange(source.events, {});
    std::erase_if(events, [&](const Event& event) { return event.begin_ns < started_ns; });
    std::vector<Event> negotiations;
    std::copy_if(events.begin(), events.end(), std::back_inserter(negotiations), is_negotiation);
    std::erase_if(events, is_negotiation);
    sort_for_nesting(events);
    if (!events.empty()) rows.push_back({source.number, source.title, lane, std::move(events)});
    lay_out(std::move(negotiations), source, lane, rows);
  }
  return rows;
}

NegotiatedNames::NegotiatedNames(const Recording& recording) {
  for (const LaneRecording& lane : recording.lanes) {
    for (const Event& event : lane.events) {
      if (!is_negotiation(event)) continue;
      const Stretch nothing{.texts = &lane.names, .first = event.sequence, .names = {}};
      Stretch& stretch = streams_.try_emplace(event.stream, nothing).first->second;
      stretch.names.resize(event.sequence - stretch.first + 1);
      stretch.names.back() = event.name;
    }
  }
}

std::string_view NegotiatedNames::find(StreamId stream, std::uint32_t sequence) const {
  const auto found = streams_.find(stream);
  if (found == streams_.end() || sequence < found->second.first) return {};
  const std::size_t index = sequence - found->second.first;
  if (index >= found->second.names.size()) return {};
  return (*found->second.texts)[found->second.names[index]];
}

}  // namespace libhvd
