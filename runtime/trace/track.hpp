// A track: the events of one thread of a rank, or of one engine, while they are recorded.
//
// One thread at a time records into a track; another one may read it meanwhile. A mutex guards it:
// while nobody else holds it, it costs less than reading the clock. Nothing fails: an event without
// room is dropped, which is counted.
#pragma once

#include "common/tick_clock.hpp"
#include "trace/event.hpp"
#include "trace/names.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace libhvd {

// How many more events all tracks of a rank together may keep. Any thread.
class EventRoom {
 public:
  void set(std::int64_t events) {
    left_.store(events, std::memory_order_relaxed);
    dropped_.store(0, std::memory_order_relaxed);
  }
  bool take(std::int64_t events) {
    if (left_.fetch_sub(events, std::memory_order_relaxed) >= events) return true;
    left_.fetch_add(events, std::memory_order_relaxed);
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> left_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

class Track {
 public:
  Track(int number, std::string title) : number_(number), title_(std::move(title)) {}

  int number() const { return number_; }
  // Reads the recording thread's clock.
  std::uint64_t now_ns() { return clock_.now_ns(); }

  // Adds an event with its label and name, whose numbers it gets here.
  void add(Event event, std::string_view label, std::string_view name, EventRoom& room);
  // Adds an event that ends now.
  void add_ended(Event event, std::string_view label, std::string_view name, EventRoom& room);

  // Spans end in the reverse order of their begins. end_span() does nothing if no span is open,
  // because that one began before the recording.
  void begin_span(std::string_view name, EventRoom& room);
  void end_span(EventRoom& room);

  void clear();
  // See Recorder::read_on().
  void read_on(TrackRecording& so_far);
  // Returns all events and forgets them. Open spans end now.
  TrackRecording take();

  // Whether a thread has this track.
  std::atomic<bool> in_use{true};

 private:
  // Spans that are nested deeper are not recorded.
  static constexpr std::size_t kDeepest = 256;
  struct OpenSpan {
    std::uint64_t begin_ns;
    std::uint32_t name;
  };

  void push(Event event, std::string_view label, std::string_view name, EventRoom& room);
  std::uint32_t intern(std::string_view name, EventRoom& room);

  const int number_;
  const std::string title_;
  TickClock clock_;   // used by the recording thread only
  std::mutex mutex_;  // guards the following
  std::deque<Event> events_;
  Names names_;
  Names labels_;
  std::vector<OpenSpan> open_;
  std::size_t too_deep_ = 0;  // open spans that are not in open_
};

}  // namespace libhvd
