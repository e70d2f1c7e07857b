#include "trace/recorder.hpp"

#include <string>
#include <utility>

namespace libhvd {
namespace {

std::atomic<std::uint64_t> last_id{0};

// A thread's lane in the recorder that it has used last. When the thread ends, or uses another
// recorder, a new thread may have the lane.
struct OwnLane {
  std::uint64_t recorder = 0;
  std::shared_ptr<Lane> lane;

  ~OwnLane() { release(); }
  void release() {
    if (lane) lane->in_use.store(false, std::memory_order_release);
    lane.reset();
    recorder = 0;
  }
};

thread_local OwnLane own;

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
  if (own.recorder != id_) {
    own.release();
    own.lane = find_lane();
    own.recorder = id_;
  }
  return *own.lane;
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
