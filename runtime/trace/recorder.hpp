// Records what a rank does while its timeline is on, from any thread, in bounded memory. Events
// without room are counted and dropped. While the timeline is off, each call costs one relaxed
// load.
//
// Each thread has a track of its own. So has each engine, whose work is done by whichever thread
// waits for it.
#pragma once

#include "trace/event.hpp"
#include "trace/track.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace libhvd {

class Recorder {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{64} << 20;

  Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool on() const { return on_.load(std::memory_order_relaxed); }

  bool marks_cycles() const { return on() && marks_cycles_.load(std::memory_order_relaxed); }

  // Forgets what was recorded, and records from now on with room for that many bytes of events and
  // names. If no thread has a track yet, the calling one becomes "program".
  void start(std::size_t bytes = kDefaultBytes, bool mark_cycles = false);
  void stop() { on_.store(false, std::memory_order_relaxed); }
  // Returns what was recorded since start(). Call it after stop().
  Recording take();
  // Replaces the events in `so_far` by those that came since the last call, at most some thousands
  // per track, and adds new names. Call it repeatedly before take(), with the same `so_far`, at
  // first empty. Any thread.
  void read_on(Recording& so_far);

  // The program's spans and marks, on the calling thread's track.
  void begin_span(std::string_view name);
  void end_span();
  void mark(EventKind kind, std::uint64_t number);

  // Returns the calling thread's track. Call it only while on().
  Track& own_track();
  // Returns a new track for the engine of a process set, which keeps it. Set 0 has one from the
  // beginning.
  std::shared_ptr<Track> track_of_engine(std::uint16_t process_set);
  EventRoom& room() { return room_; }

 private:
  std::shared_ptr<Track> find_track();
  void drop_ended();

  const std::uint64_t id_;  // no other recorder of the process has it
  std::atomic<bool> on_{false};
  std::atomic<bool> marks_cycles_{false};
  EventRoom room_;
  const std::shared_ptr<Track> engine_;
  std::mutex mutex_;  // guards the following
  std::vector<std::shared_ptr<Track>> tracks_;
  std::vector<std::shared_ptr<Track>> set_tracks_;  // of the engines of process sets
};

}  // namespace libhvd
