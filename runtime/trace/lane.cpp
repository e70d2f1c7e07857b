#include "trace/lane.hpp"

#include "base/clock.hpp"

#include <algorithm>

namespace libhvd {
namespace {

// What a new name takes of the room: its bytes, twice, and the tables around them.
std::int64_t cost_of(std::string_view name) {
  constexpr std::size_t kTables = 120;
  const std::size_t bytes = 2 * std::min(name.size(), Names::kLongest) + kTables;
  return static_cast<std::int64_t>(bytes / sizeof(Event));
}

}  // namespace

void Lane::add(Event event, std::string_view label, std::string_view name, EventRoom& room) {
  const std::lock_guard lock(mutex_);
  push(event, label, name, room);
}

void Lane::add_ended(Event event, std::string_view label, std::string_view name, EventRoom& room) {
  event.duration_ns = clock_.now_ns() - event.begin_ns;
  const std::lock_guard lock(mutex_);
  push(event, label, name, room);
}

void Lane::push(Event event, std::string_view label, std::string_view name, EventRoom& room) {
  if (!room.take(1)) return;
  if (!name.empty()) event.name = intern(name, room);
  event.label = static_cast<std::uint16_t>(labels_.number_of(label));
  events_.push_back(event);
}

// Without room for it, an event goes without its name.
std::uint32_t Lane::intern(std::string_view name, EventRoom& room) {
  const auto known = names_.find(name);
  if (known) return *known;
  return room.take(cost_of(name)) ? names_.add(name) : 0;
}

void Lane::begin_span(std::string_view name, EventRoom& room) {
  const std::uint64_t now = clock_.now_ns();
  const std::lock_guard lock(mutex_);
  if (open_.size() == kDeepest) {
    ++too_deep_;
  } else {
    open_.push_back({now, intern(name, room)});
  }
}

void Lane::end_span(EventRoom& room) {
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

void Lane::clear() {
  const std::lock_guard lock(mutex_);
  events_.clear();
  open_.clear();
  too_deep_ = 0;
  names_ = {};
  labels_ = {};
}

LaneRecording Lane::take() {
  const std::lock_guard lock(mutex_);
  LaneRecording taken{.number = number_, .title = title_, .events = {}, .names = {}, .labels = {}};
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
