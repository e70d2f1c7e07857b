#include "trace/recorder.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace libhvd {
namespace {

std::atomic<std::uint64_t> last_id{0};

// A thread's track in the recorder that it used last. When the thread ends, or uses another
// recorder, another thread may take the track.
struct ThreadTrack {
  std::uint64_t recorder = 0;
  std::shared_ptr<Track> track;

  ~ThreadTrack() { release(); }
  void release() {
    if (track) track->in_use.store(false, std::memory_order_release);
    track.reset();
    recorder = 0;
  }
};

thread_local ThreadTrack thread_track;

}  // namespace

Recorder::Recorder()
    : id_(last_id.fetch_add(1, std::memory_order_relaxed) + 1),
      engine_(std::make_shared<Track>(engine_row(0), "engine")) {
  tracks_.push_back(engine_);
}

void Recorder::start(std::size_t bytes, bool mark_cycles) {
  own_track();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& track : tracks_) track->clear();
    for (const auto& track : set_tracks_) track->clear();
  }
  room_.set(static_cast<std::int64_t>(bytes / sizeof(Event)));
  marks_cycles_.store(mark_cycles, std::memory_order_relaxed);
  on_.store(true, std::memory_order_relaxed);
}

Recording Recorder::take() {
  Recording taken;
  taken.dropped = room_.dropped();
  const std::lock_guard lock(mutex_);
  for (const auto& track : tracks_) taken.tracks.push_back(track->take());
  for (const auto& track : set_tracks_) taken.tracks.push_back(track->take());
  drop_ended();
  return taken;
}

void Recorder::read_on(Recording& so_far) {
  std::vector<std::shared_ptr<Track>> tracks;
  {
    const std::lock_guard lock(mutex_);
    tracks = tracks_;
    tracks.insert(tracks.end(), set_tracks_.begin(), set_tracks_.end());
  }
  for (const auto& track : tracks) {
    auto known = std::find_if(so_far.tracks.begin(), so_far.tracks.end(),
                              [&](const auto& other) { return other.number == track->number(); });
    if (known == so_far.tracks.end()) known = so_far.tracks.emplace(known);
    track->read_on(*known);
  }
}

std::shared_ptr<Track> Recorder::track_of_engine(std::uint16_t process_set) {
  if (process_set == 0) return engine_;
  const std::lock_guard lock(mutex_);
  if (!on()) drop_ended();
  set_tracks_.push_back(std::make_shared<Track>(
      engine_row(process_set), "engine, process set " + std::to_string(process_set)));
  return set_tracks_.back();
}

// Drops the tracks of removed process sets: no engine holds them any more.
void Recorder::drop_ended() {
  std::erase_if(set_tracks_, [](const auto& track) { return track.use_count() == 1; });
}

Track& Recorder::own_track() {
  if (thread_track.recorder != id_) {
    thread_track.release();
    thread_track.track = find_track();
    thread_track.recorder = id_;
  }
  return *thread_track.track;
}

std::shared_ptr<Track> Recorder::find_track() {
  const std::lock_guard lock(mutex_);
  for (const auto& track : tracks_) {
    bool in_use = false;
    if (track->in_use.compare_exchange_strong(in_use, true, std::memory_order_acquire))
      return track;
  }
  const auto number = static_cast<int>(tracks_.size());
  std::string title = number == 1 ? "program" : "thread " + std::to_string(number);
  // The program's row is above the engine's, which is 1.
  tracks_.push_back(std::make_shared<Track>(number == 1 ? 0 : number, std::move(title)));
  return tracks_.back();
}

void Recorder::begin_span(std::string_view name) {
  if (on()) own_track().begin_span(name, room_);
}

void Recorder::end_span() {
  if (on()) own_track().end_span(room_);
}

void Recorder::mark(EventKind kind, std::uint64_t number) {
  if (!on()) return;
  Track& track = own_track();
  track.add({.begin_ns = track.now_ns(), .bytes = number, .kind = kind}, "", "", room_);
}

}  // namespace libhvd
