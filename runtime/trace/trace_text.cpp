#include "trace/trace_text.hpp"

#include "collective/element.hpp"
#include "trace/json.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace libhvd {
namespace {

constexpr std::size_t kPieceBytes = 256 * 1024;
constexpr std::uint32_t kMostMembers = 64;  // of a fused operation, that are named
constexpr std::int64_t kShortestWaitNs = 1000;

const char* category(EventKind kind) {
  switch (kind) {
    case EventKind::span:
      return "program";
    case EventKind::call:
      return "collective";
    case EventKind::operation:
      return "operation";
    case EventKind::negotiation:
      return "negotiation";
    case EventKind::step:
    case EventKind::epoch:
      return "progress";
    case EventKind::cycle:
      return "cycle";
  }
  return "unknown";
}

void append_begin(std::string& json, const char* phase, int rank, int row) {
  json += ",\n{\"ph\":\"";
  json += phase;
  json += "\",\"pid\":" + std::to_string(rank) + ",\"tid\":" + std::to_string(row);
}

void append_times(std::string& json, std::int64_t begin_ns, std::int64_t end_ns) {
  json += ",\"ts\":";
  append_microseconds(json, begin_ns);
  json += ",\"dur\":";
  append_microseconds(json, end_ns - begin_ns);
}

void append_metadata_event(std::string& json, int rank, int row, const char* what,
                           std::string_view text) {
  append_begin(json, "M", rank, row);
  json += std::string(",\"name\":\"") + what + "\",\"args\":{\"";
  json += std::string_view(what).ends_with("labels") ? "labels" : "name";
  json += "\":";
  append_json_string(json, text);
  json += "}}";
}

void append_sort_index(std::string& json, int rank, int row, const char* what, int index) {
  append_begin(json, "M", rank, row);
  json += std::string(",\"name\":\"") + what + "\",\"args\":{\"sort_index\":";
  json += std::to_string(index) + "}}";
}

bool is_mark(const Event& event) {
  return event.kind == EventKind::step || event.kind == EventKind::epoch ||
         event.kind == EventKind::cycle;
}

// Returns "NEGOTIATE_ALLREDUCE" or "ALLREDUCE" for an event with the label "allreduce".
std::string horovods_title(EventKind kind, std::string_view label) {
  std::string title = kind == EventKind::negotiation ? "NEGOTIATE_" : "";
  for (const char letter : label)
    title += letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  return title;
}

bool has_arrival(const Event& event) {
  return event.kind == EventKind::call || event.kind == EventKind::negotiation;
}

}  // namespace

std::int64_t RankView::time(std::uint64_t own_ns) const {
  return std::max<std::int64_t>(0, clock.map(own_ns) - origin_ns);
}

std::vector<Arrival> arrivals_of(const Recording& recording, const RankView& view) {
  std::vector<Arrival> arrivals;
  for (const TrackRecording& track : recording.tracks) {
    for (const Event& event : track.events) {
      if (has_arrival(event) && event.begin_ns >= view.started_ns)
        arrivals.push_back({event.stream, event.sequence, view.time(event.begin_ns)});
    }
  }
  return arrivals;
}

TraceText::TraceText(Recording recording, RankView view, LastArrivals last, TraceProgress* progress)
    : recording_(std::move(recording)),
      view_(std::move(view)),
      last_(std::move(last)),
      names_(recording_),
      progress_(progress == nullptr ? own_progress_ : *progress),
      rows_(arrange_rows(recording_, view_.started_ns, progress_)) {}

std::string TraceText::next() {
  std::string json;
  if (!std::exchange(begun_, true)) append_metadata(json);
  while (row_ < rows_.size() && json.size() < kPieceBytes) {
    const TraceRow& row = rows_[row_];
    append_event(json, row, event_);
    if (++event_ < row.events.size()) continue;
    ++row_;
    event_ = 0;
  }
  return json;
}

void TraceText::rewind() {
  begun_ = false;
  progress_.named = false;
  progress_.rows.clear();
  row_ = 0;
  event_ = 0;
}

void TraceText::append_metadata(std::string& json) {
  const int rank = view_.rank;
  if (!std::exchange(progress_.named, true)) {
    const std::string name = "rank " + std::to_string(rank) + " (" + view_.host + ")";
    append_metadata_event(json, rank, 0, "process_name", name);
    append_sort_index(json, rank, 0, "process_sort_index", rank);
  }
  if (recording_.dropped > 0) {
    append_metadata_event(json, rank, 0, "process_labels",
                          std::to_string(recording_.dropped) + " events dropped");
  }
  for (const TraceRow& row : rows_) {
    if (!progress_.rows.insert(row.number).second) continue;
    append_metadata_event(json, rank, row.number, "thread_name", row.title);
    append_sort_index(json, rank, row.number, "thread_sort_index", row.number);
  }
}

void TraceText::append_event(std::string& json, const TraceRow& row, std::size_t index) const {
  const Event& event = row.events[index];
  append_begin(json, is_mark(event) ? "i" : "X", view_.rank, row.number);
  if (is_mark(event)) {
    json += ",\"s\":\"p\",\"ts\":";
    append_microseconds(json, view_.time(event.begin_ns));
  } else {
    append_times(json, view_.time(event.begin_ns), view_.time(event.end_ns()));
  }
  json += std::string(",\"cat\":\"") + category(event.kind) + "\",\"name\":";
  append_title(json, row, event);
  append_arguments(json, row, event);
  json += '}';
  // Phases could overlap the program's own spans inside the call.
  const bool encloses =
      index + 1 < row.events.size() && row.events[index + 1].begin_ns < event.end_ns();
  if (event.kind == EventKind::call && !encloses) append_phases(json, row, event);
}

void TraceText::append_title(std::string& json, const TraceRow& row, const Event& event) const {
  const TrackRecording& track = recording_.tracks[row.track];
  if (event.kind == EventKind::cycle) {
    json += "\"CYCLE_START\"";
    return;
  }
  if (is_mark(event)) {
    json += event.kind == EventKind::step ? "\"step " : "\"epoch ";
    json += std::to_string(event.bytes) + '"';
    return;
  }
  std::string title = track.labels[event.label];
  if (view_.horovods_words && event.kind != EventKind::span) {
    title = horovods_title(event.kind, title);
  } else if (event.fused) {
    title += ", " + std::to_string(event.name) + " fused";
  } else if (const std::string& name = track.names[event.name]; !name.empty()) {
    title += (title.empty() ? "" : " ") + name;
  }
  append_json_string(json, title);
}

void TraceText::append_arguments(std::string& json, const TraceRow& row, const Event& event) const {
  if (event.kind == EventKind::span) {
    if (event.cut) json += ",\"args\":{\"unfinished\":true}";
    return;
  }
  if (is_mark(event)) return;
  json += ",\"args\":{\"number\":" + std::to_string(event.sequence);
  if (event.type != CallFacts::kNone) {
    json += ",\"bytes\":" + std::to_string(event.bytes);
    json += std::string(",\"type\":\"") + type_name(event.type) + '"';
  }
  if (event.op != CallFacts::kNone) json += std::string(",\"op\":\"") + op_name(event.op) + '"';
  if (const int set = event.stream / 2; set != 0) json += ",\"process set\":" + std::to_string(set);
  if (event.fused) {
    append_members(json, event);
  } else if (event.name != 0) {
    const TrackRecording& track = recording_.tracks[row.track];
    json += ",\"tensor\":";
    append_json_string(json, (view_.horovods_words ? track.labels[event.label] + "." : "") +
                                 track.names[event.name]);
  }
  if (event.failed) json += ",\"failed\":true";
  if (const auto last = last_arrival(event)) {
    json += ",\"last\":\"rank " + std::to_string(last->rank) + '"';
    if (has_arrival(event)) {
      json += ",\"waited_us\":";
      append_microseconds(json,
                          std::max<std::int64_t>(0, last->at_ns - view_.time(event.begin_ns)));
    }
  }
  json += '}';
}

void TraceText::append_members(std::string& json, const Event& event) const {
  const std::uint32_t count = event.name;
  json += ",\"tensors\":[";
  for (std::uint32_t i = 0; i < std::min(count, kMostMembers); ++i) {
    if (i > 0) json += ',';
    append_json_string(json, names_.find(event.stream, event.sequence + i));
  }
  json += ']';
  if (count > kMostMembers) json += ",\"more\":" + std::to_string(count - kMostMembers);
}

// Adds two events inside a call: the wait for the last rank, and the operation after it.
void TraceText::append_phases(std::string& json, const TraceRow& row, const Event& event) const {
  const auto last = last_arrival(event);
  if (!last || last->rank == view_.rank) return;
  const std::int64_t begin = view_.time(event.begin_ns);
  const std::int64_t end = view_.time(event.end_ns());
  const std::int64_t all_came = std::clamp(last->at_ns, begin, end);
  if (all_came - begin < kShortestWaitNs) return;
  append_begin(json, "X", view_.rank, row.number);
  append_times(json, begin, all_came);
  json += ",\"cat\":\"wait\",\"name\":\"wait for rank " + std::to_string(last->rank) + "\"}";
  if (all_came == end) return;
  append_begin(json, "X", view_.rank, row.number);
  append_times(json, all_came, end);
  json += ",\"cat\":\"operation\",\"name\":";
  append_json_string(json, recording_.tracks[row.track].labels[event.label]);
  json += '}';
}

std::optional<LastArrival> TraceText::last_arrival(const Event& event) const {
  auto last = last_.find(event.stream, event.sequence);
  for (std::uint32_t i = 1; event.fused && i < event.name; ++i) {
    const auto other = last_.find(event.stream, event.sequence + i);
    if (other && (!last || other->at_ns > last->at_ns)) last = other;
  }
  return last;
}

std::string trace_head(int ranks, std::int64_t clock_error_ns) {
  std::string json = R"({"displayTimeUnit":"ns","otherData":{"ranks":")";
  json += std::to_string(ranks) + R"(","clocks agree within us":")";
  append_microseconds(json, clock_error_ns);
  return json + R"("},"traceEvents":[)";
}

std::string trace_tail() {
  return "\n]}\n";
}

}  // namespace libhvd
