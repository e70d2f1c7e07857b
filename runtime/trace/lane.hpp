// The events of one thread, or of the engine, in the order in which they ended, by one clock.
//
// One thread at a time records, while another may take what there is: a mutex that is free costs
// less than reading the clock.
#pragma once

#include "base/tick_clock.hpp"
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

// How many events more may be kept, by all lanes of a rank together.
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

class Lane {
 public:
  Lane(int number, std::string title) : number_(number), title_(std::move(title)) {}

  // Of the lane's clock.
  std::uint64_t now_ns() { return clock_.now_ns(); }

  // Names given apart from the event, which gets their numbers.
  void add(Event event, std::string_view label, std::string_view name, EventRoom& room);
  // Until now.
  void add_ended(Event event, std::string_view label, std::string_view name, EventRoom& room);

  // Spans end in the reverse order. end_span() without one open does nothing: it has begun before
  // the recording.
  void begin_span(std::string_view name, EventRoom& room);
  void end_span(EventRoom& room);

  void clear();
  // What there is; spans that are open end now.
  LaneRecording take();

  // Whether a thread writes into it.
  std::atomic<bool> in_use{true};

 private:
  // What is nested deeper is not recorded.
  static constexpr std::size_t kDeepest = 256;
  struct OpenSpan {
    std::uint64_t begin_ns;
    std::uint32_t name;
  };

  void push(Event event, std::string_view label, std::string_view name, EventRoom& room);
  std::uint32_t intern(std::string_view name, EventRoom& room);

  const int number_;
  const std::string title_;
  TickClock clock_;   // of who records
  std::mutex mutex_;  // guards what follows
  std::deque<Event> events_;
  Names names_;
  Names labels_;
  std::vector<OpenSpan> open_;
  std::size_t too_deep_ = 0;  // open, too, but not in open_
};

}  // namespace libhvd
