#include "trace/rows.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace libhvd {
namespace {

// Returns a number above those of threads, and directly after the engine's own row where it has a
// process set.
int first_negotiation_row(int engine) {
  constexpr int kOfAll = 1000;
  return engine == engine_row(0) ? kOfAll : engine + 1;
}

// Returns "negotiation, process set 1" for "engine, process set 1".
std::string negotiation_title(const std::string& engine) {
  const std::size_t comma = engine.find(',');
  return "negotiation" + (comma == std::string::npos ? "" : engine.substr(comma));
}

bool is_negotiation(const Event& event) {
  return event.kind == EventKind::negotiation;
}

// Sorts events so that one comes before those inside it. They come in the order in which they
// ended: of two with equal begin and end, the later one encloses the other.
void sort_for_nesting(std::vector<Event>& events) {
  std::reverse(events.begin(), events.end());
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns() > b.end_ns();
  });
}

// Puts each negotiation into the first row that is free when it begins.
void lay_out(std::vector<Event> negotiations, const TrackRecording& source, std::size_t track,
             std::vector<std::uint64_t>& busy_until, std::vector<TraceRow>& rows) {
  sort_for_nesting(negotiations);
  std::map<std::size_t, TraceRow> own;
  for (const Event& event : negotiations) {
    auto free = std::find_if(busy_until.begin(), busy_until.end(),
                             [&](std::uint64_t end) { return end <= event.begin_ns; });
    if (free == busy_until.end()) {
      if (busy_until.size() == kMostNegotiationRows) continue;
      free = busy_until.insert(free, 0);
    }
    *free = event.end_ns();
    const auto index = static_cast<std::size_t>(free - busy_until.begin());
    TraceRow& row = own[index];
    row.number = first_negotiation_row(source.number) + static_cast<int>(index);
    row.title = negotiation_title(source.title);
    row.track = track;
    row.events.push_back(event);
  }
  for (auto& [index, row] : own) rows.push_back(std::move(row));
}

}  // namespace

std::vector<TraceRow> arrange_rows(Recording& recording, std::uint64_t started_ns,
                                   TraceProgress& progress) {
  std::vector<TraceRow> rows;
  for (std::size_t track = 0; track < recording.tracks.size(); ++track) {
    TrackRecording& source = recording.tracks[track];
    std::vector<Event> events = std::exchange(source.events, {});
    std::erase_if(events, [&](const Event& event) { return event.begin_ns < started_ns; });
    std::vector<Event> negotiations;
    std::copy_if(events.begin(), events.end(), std::back_inserter(negotiations), is_negotiation);
    std::erase_if(events, is_negotiation);
    sort_for_nesting(events);
    if (!events.empty()) rows.push_back({source.number, source.title, track, std::move(events)});
    lay_out(std::move(negotiations), source, track, progress.busy_until[source.number], rows);
  }
  return rows;
}

NegotiatedNames::NegotiatedNames(const Recording& recording) {
  for (const TrackRecording& track : recording.tracks) {
    for (const Event& event : track.events) {
      if (!is_negotiation(event)) continue;
      const Recorded nothing{.texts = &track.names, .first = event.sequence, .names = {}};
      Recorded& recorded = streams_.try_emplace(event.stream, nothing).first->second;
      recorded.names.resize(event.sequence - recorded.first + 1);
      recorded.names.back() = event.name;
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
