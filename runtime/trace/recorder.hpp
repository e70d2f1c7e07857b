// Names by number, so that an event need not carry them. One thread at a time.
#pragma once

#include "collective/call.hpp"
#include "common/tick_clock.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace libhvd {

class Names {
 public:
  // Longer ones are cut: what tells tensors apart stands in the first bytes, and memory is bounded.
  static constexpr std::size_t kLongest = 255;

  // 0 is "".
  std::optional<std::uint32_t> find(std::string_view name) {
    if (name.empty()) return 0;
    name = name.substr(0, kLongest);
    // A training asks for the same ones in the same order, step by step.
    for (const std::uint32_t guess : {last_, last_ + 1, 1u}) {
      if (guess < names_.size() && names_[guess] == name) return last_ = guess;
    }
    const auto known = numbers_.find(name);
    if (known == numbers_.end()) return std::nullopt;
    return last_ = known->second;
  }

  // Only what find() does not.
  std::uint32_t add(std::string_view name) {
    const auto number = static_cast<std::uint32_t>(names_.size());
    names_.emplace_back(name.substr(0, kLongest));
    numbers_.emplace(names_.back(), number);
    return number;
  }

  std::uint32_t number_of(std::string_view name) {
    const auto known = find(name);
    return known ? *known : add(name);
  }

  // All, by number.
  const std::vector<std::string>& all() const { return names_; }
  // The same; afterwards there are none.
  std::vector<std::string> take() {
    numbers_.clear();
    last_ = 0;
    return std::exchange(names_, {""});
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };

  std::vector<std::string> names_{""};
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::uint32_t last_ = 0;  // that was asked for
};

// What a rank records for the timeline: small values with names by number.

enum class EventKind : std::uint8_t {
  span,         // of the program's own
  call,         // a blocking collective
  operation,    // the engine carries out one collective, or several as one
  negotiation,  // of one in the engine: from its submission here until all ranks have submitted it
  step,         // a mark: so many steps are done
  epoch,        // a mark: this epoch begins
};

// Collectives that follow one another in the same order on all ranks, and so are the same one when
// they have the same number: the blocking ones of a process set, or those that its engine carries
// out.
using StreamId = std::uint16_t;
constexpr StreamId call_stream(std::uint16_t process_set) {
  return static_cast<StreamId>(2 * process_set);
}
constexpr StreamId engine_stream(std::uint16_t process_set) {
  return static_cast<StreamId>(2 * process_set + 1);
}

inline constexpr std::uint16_t kMostProcessSets = 32767;

// The trace's tid of an engine's lane, with room below it for its negotiations.
constexpr int engine_row(std::uint16_t process_set) {
  constexpr int kFirstSet = 2000;
  constexpr int kRowsOfSet = 1000;
  return process_set == 0 ? 1 : kFirstSet + kRowsOfSet * process_set;
}

struct Event {
  std::uint64_t begin_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t duration_ns = 0;
  std::uint64_t bytes = 0;  // of a collective on this rank; the number of a mark
  std::uint32_t name = 0;   // in Names, 0: none; of a fused operation how many it is
  std::uint32_t sequence =
      0;  // of a collective in its stream; of a fused operation the first one's
  StreamId stream = 0;
  std::uint16_t label = 0;  // "allreduce", in Names
  EventKind kind = EventKind::span;
  std::uint8_t type = CallFacts::kNone;
  std::uint8_t op = CallFacts::kNone;
  bool failed : 1 = false;
  bool fused : 1 = false;
  bool cut : 1 = false;  // the recording ended before it did

  std::uint64_t end_ns() const { return begin_ns + duration_ns; }
};
static_assert(sizeof(Event) == 40);

// What one thread of a rank, or its engine, has recorded.
struct LaneRecording {
  int number = 0;     // the trace's tid
  std::string title;  // "program", "engine"
  std::vector<Event> events;
  std::vector<std::string> names;  // [0] is ""
  std::vector<std::string> labels;
  std::size_t read = 0;  // by Recorder::read_on(), with these
};

struct Recording {
  std::vector<LaneRecording> lanes;
  std::uint64_t dropped = 0;  // events for which there was no room
};

// The events of one thread, or of the engine, in the order in which they ended, by one clock.
//
// One thread at a time records, while another may take what there is: a mutex that is free costs
// less than reading the clock.

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

  int number() const { return number_; }
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
  // See Recorder::read_on().
  void read_on(LaneRecording& so_far);
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

// What a rank records while its timeline is on: from any thread, into memory that is bounded; what
// comes when that is full is counted and dropped. Off, each call costs one relaxed load.
//
// Every thread has a lane of its own, and so has each engine, which works on whichever thread waits
// for it.

class Recorder {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{64} << 20;

  Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Begins anew, with room for so many bytes of events and names. The calling thread is the
  // program's in the timeline, when no other one is yet.
  void start(std::size_t bytes = kDefaultBytes);
  void stop() { on_.store(false, std::memory_order_relaxed); }
  // What was recorded since start(); after stop().
  Recording take();
  // Before take(), over and over with the same `so_far`, empty at first: which events have come
  // since, as many as one reading gives; names are added to those that are there. Any thread.
  void read_on(Recording& so_far);

  // Of the program, on the calling thread's lane.
  void begin_span(std::string_view name);
  void end_span();
  void mark(EventKind kind, std::uint64_t number);

  // For CallTrace and EngineTrace, while it is on.
  Lane& own_lane();
  // A new one for the engine of a process set, to be kept as long as that; set 0 has one already.
  std::shared_ptr<Lane> lane_of_engine(std::uint16_t process_set);
  EventRoom& room() { return room_; }

 private:
  std::shared_ptr<Lane> find_lane();
  void drop_ended();

  const std::uint64_t id_;  // of no other recorder of the process
  std::atomic<bool> on_{false};
  EventRoom room_;
  const std::shared_ptr<Lane> engine_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::vector<std::shared_ptr<Lane>> set_lanes_;  // of the engines of process sets
};

}  // namespace libhvd
