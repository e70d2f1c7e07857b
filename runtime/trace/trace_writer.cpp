#include "trace/trace_writer.hpp"

#include "collective/element.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace libhvd {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Bytes of the UTF-8 sequence at the front of a text; 0 when there is none (RFC 3629, section 4).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) > 0x9f;
  const bool too_large = first == 0xf4 && byte(1) > 0x8f;
  return overlong || surrogate || too_large ? 0 : length;
}

void append_control(std::string& json, unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  json += "\\u00";
  json += kDigits[byte >> 4];
  json += kDigits[byte & 15];
}

}  // namespace

void append_json_string(std::string& json, std::string_view bytes) {
  json += '"';
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    const char front = bytes.front();
    if (length == 0) {
      json += kReplacement;
    } else if (front == '"' || front == '\\') {
      json += '\\';
      json += front;
    } else if (static_cast<unsigned char>(front) < 0x20) {
      append_control(json, static_cast<unsigned char>(front));
    } else {
      json += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  json += '"';
}

void append_microseconds(std::string& json, std::int64_t ns) {
  if (ns < 0) {
    json += '-';
    ns = -ns;
  }
  json += std::to_string(ns / 1000);
  std::string fraction = std::to_string(ns % 1000 + 1000);
  fraction.front() = '.';
  json += fraction;
}

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
    row.lane = lane;
    row.events.push_back(event);
  }
  for (auto& [index, row] : own) rows.push_back(std::move(row));
}

}  // namespace

std::vector<TraceRow> arrange_rows(Recording& recording, std::uint64_t started_ns,
                                   TraceProgress& progress) {
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
    lay_out(std::move(negotiations), source, lane, progress.busy_until[source.number], rows);
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
  return event.kind == EventKind::step || event.kind == EventKind::epoch;
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
  for (const LaneRecording& lane : recording.lanes) {
    for (const Event& event : lane.events) {
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
  // Where the program's own spans lie inside, the phases could cut through them.
  const bool encloses =
      index + 1 < row.events.size() && row.events[index + 1].begin_ns < event.end_ns();
  if (event.kind == EventKind::call && !encloses) append_phases(json, row, event);
}

void TraceText::append_title(std::string& json, const TraceRow& row, const Event& event) const {
  const LaneRecording& lane = recording_.lanes[row.lane];
  if (is_mark(event)) {
    json += event.kind == EventKind::step ? "\"step " : "\"epoch ";
    json += std::to_string(event.bytes) + '"';
    return;
  }
  std::string title = lane.labels[event.label];
  if (event.fused) {
    title += ", " + std::to_string(event.name) + " fused";
  } else if (const std::string& name = lane.names[event.name]; !name.empty()) {
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
    json += ",\"tensor\":";
    append_json_string(json, recording_.lanes[row.lane].names[event.name]);
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

// Until the last rank came, and after that.
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
  append_json_string(json, recording_.lanes[row.lane].labels[event.label]);
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
