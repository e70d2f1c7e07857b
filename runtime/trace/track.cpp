#include "trace/track.hpp"

#include "common/clock.hpp"

#include <algorithm>

namespace libhvd {
namespace {

// Returns how many events' room a new name takes: its bytes, stored twice, and its entries in
// tables.
std::int64_t cost_of(std::string_view name) {
  constexpr std::size_t kTables = 120;
  const std::size_t bytes = 2 * std::min(name.size(), Names::kLongest) + kTables;
  return static_cast<std::int64_t>(bytes / sizeof(Event));
}

}  // namespace

void Track::add(Event event, std::string_view label, std::string_view name, EventRoom& room) {
  const std::lock_guard lock(mutex_);
  push(event, label, name, room);
}

void Track::add_ended(Event event, std::string_view label, std::string_view name, EventRoom& room) {
  event.duration_ns = clock_.now_ns() - event.begin_ns;
  const std::lock_guard lock(mutex_);
  push(event, label, name, room);
}

void Track::push(Event event, std::string_view label, std::string_view name, EventRoom& room) {
  if (!room.take(1)) return;
  if (!name.empty()) event.name = intern(name, room);
  event.label = static_cast<std::uint16_t>(labels_.number_of(label));
  events_.push_back(event);
}

// Returns the number of a name; 0, the empty name, if there is no room for it.
std::uint32_t Track::intern(std::string_view name, EventRoom& room) {
  const auto known = names_.find(name);
  if (known) return *known;
  return room.take(cost_of(name)) ? names_.add(name) : 0;
}

void Track::begin_span(std::string_view name, EventRoom& room) {
  const std::uint64_t now = clock_.now_ns();
  const std::lock_guard lock(mutex_);
  if (open_.size() == kDeepest) {
    ++too_deep_;
  } else {
    open_.push_back({now, intern(name, room)});
  }
}

void Track::end_span(EventRoom& room) {
  const std::uint64_t now = clock_.now_ns();
  const std::lock_guard lock(mutex_);
  if (too_deep_ > 0) {
    --too_deep_;
    return;
  }
  if (open_.empty()) return;
  const OpenSpan span = open_.back();
  open_.pop_back();
  push({.begin_ns = span.begin_ns, .duration_ns = now - span.begin_ns, .name = span.name}, "", "",
       room);
}

void Track::clear() {
  const std::lock_guard lock(mutex_);
  events_.clear();
  open_.clear();
  too_deep_ = 0;
  names_ = {};
  labels_ = {};
}

// Reads few events at a time, because the recording thread waits meanwhile.
void Track::read_on(TrackRecording& so_far) {
  constexpr std::size_t kMost = 4096;
  const std::lock_guard lock(mutex_);
  so_far.number = number_;
  so_far.title = title_;
  const auto add_new = [](const Names& from, std::vector<std::string>& to) {
    for (std::size_t i = to.size(); i < from.all().size(); ++i) to.push_back(from.all()[i]);
  };
  add_new(names_, so_far.names);
  add_new(labels_, so_far.labels);
  const std::size_t count = std::min(kMost, events_.size() - std::min(so_far.read, events_.size()));
  const auto begin = events_.begin() + static_cast<std::ptrdiff_t>(so_far.read);
  so_far.events.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  so_far.read += count;
}

TrackRecording Track::take() {
  const std::lock_guard lock(mutex_);
  TrackRecording taken{.number = number_, .title = title_, .events = {}, .names = {}, .labels = {}};
  taken.events.assign(events_.begin(), events_.end());
  const std::uint64_t now = monotonic_ns();
  for (; !open_.empty(); open_.pop_back()) {
    Event event{.begin_ns = open_.back().begin_ns, .name = open_.back().name};
    event.duration_ns = std::max(now, event.begin_ns) - event.begin_ns;
    event.cut = true;
    taken.events.push_back(event);
  }
  events_.clear();
  taken.names = names_.take();
  taken.labels = labels_.take();
  return taken;
}

}  // namespace libhvd
