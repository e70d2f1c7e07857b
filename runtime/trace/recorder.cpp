#include "trace/recorder.hpp"

#include "common/clock.hpp"

#include <algorithm>
#include <string>
#include <utility>

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

// Few at a time, as the thread that records waits meanwhile.
void Lane::read_on(LaneRecording& so_far) {
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

namespace {

std::atomic<std::uint64_t> last_id{0};

// A thread's lane in the recorder that it has used last. When the thread ends, or uses another
// recorder, a new thread may have the lane.
struct RankLane {
  std::uint64_t recorder = 0;
  std::shared_ptr<Lane> lane;

  ~RankLane() { release(); }
  void release() {
    if (lane) lane->in_use.store(false, std::memory_order_release);
    lane.reset();
    recorder = 0;
  }
};

thread_local RankLane thread_lane;

}  // namespace

Recorder::Recorder()
    : id_(last_id.fetch_add(1, std::memory_order_relaxed) + 1),
      engine_(std::make_shared<Lane>(engine_row(0), "engine")) {
  lanes_.push_back(engine_);
}

void Recorder::start(std::size_t bytes) {
  own_lane();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& lane : lanes_) lane->clear();
    for (const auto& lane : set_lanes_) lane->clear();
  }
  room_.set(static_cast<std::int64_t>(bytes / sizeof(Event)));
  on_.store(true, std::memory_order_relaxed);
}

Recording Recorder::take() {
  Recording taken;
  taken.dropped = room_.dropped();
  const std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) taken.lanes.push_back(lane->take());
  for (const auto& lane : set_lanes_) taken.lanes.push_back(lane->take());
  drop_ended();
  return taken;
}

void Recorder::read_on(Recording& so_far) {
  std::vector<std::shared_ptr<Lane>> lanes;
  {
    const std::lock_guard lock(mutex_);
    lanes = lanes_;
    lanes.insert(lanes.end(), set_lanes_.begin(), set_lanes_.end());
  }
  for (const auto& lane : lanes) {
    auto known = std::find_if(so_far.lanes.begin(), so_far.lanes.end(),
                              [&](const auto& other) { return other.number == lane->number(); });
    if (known == so_far.lanes.end()) known = so_far.lanes.emplace(known);
    lane->read_on(*known);
  }
}

std::shared_ptr<Lane> Recorder::lane_of_engine(std::uint16_t process_set) {
  if (process_set == 0) return engine_;
  const std::lock_guard lock(mutex_);
  if (!on()) drop_ended();
  set_lanes_.push_back(std::make_shared<Lane>(
      engine_row(process_set), "engine, process set " + std::to_string(process_set)));
  return set_lanes_.back();
}

// Lanes of process sets that were removed: nobody else has them, and nothing is in them.
void Recorder::drop_ended() {
  std::erase_if(set_lanes_, [](const auto& lane) { return lane.use_count() == 1; });
}

Lane& Recorder::own_lane() {
  if (thread_lane.recorder != id_) {
    thread_lane.release();
    thread_lane.lane = find_lane();
    thread_lane.recorder = id_;
  }
  return *thread_lane.lane;
}

std::shared_ptr<Lane> Recorder::find_lane() {
  const std::lock_guard lock(mutex_);
  for (const auto& lane : lanes_) {
    bool in_use = false;
    if (lane->in_use.compare_exchange_strong(in_use, true, std::memory_order_acquire)) return lane;
  }
  const auto number = static_cast<int>(lanes_.size());
  std::string title = number == 1 ? "program" : "thread " + std::to_string(number);
  // The program's stands above the engine's.
  lanes_.push_back(std::make_shared<Lane>(number == 1 ? 0 : number, std::move(title)));
  return lanes_.back();
}

void Recorder::begin_span(std::string_view name) {
  if (on()) own_lane().begin_span(name, room_);
}

void Recorder::end_span() {
  if (on()) own_lane().end_span(room_);
}

void Recorder::mark(EventKind kind, std::uint64_t number) {
  if (!on()) return;
  Lane& lane = own_lane();
  lane.add({.begin_ns = lane.now_ns(), .bytes = number, .kind = kind}, "", "", room_);
}

}  // namespace libhvd
