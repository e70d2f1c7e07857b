// What a rank records for the timeline: events, and all events of a rank as one recording. Plain
// values.
#pragma once

#include "collective/call.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

enum class EventKind : std::uint8_t {
  span,         // the program's own, by hvd_timeline_begin and _end
  call,         // a blocking collective
  operation,    // the engine runs a collective, or several fused into one
  negotiation,  // of a collective in the engine: from its submission on this rank until all ranks
                // have submitted it
  step,         // a mark: this many steps are done
  epoch,        // a mark: this epoch begins
  cycle,        // a mark: the engine begins a round, in which the ranks propose collectives
};

// A sequence of collectives that is the same on all ranks, so that those with the same number are
// the same collective. A process set has two: its blocking collectives, and those that its engine
// runs.
using StreamId = std::uint16_t;
constexpr StreamId call_stream(std::uint16_t process_set) {
  return static_cast<StreamId>(2 * process_set);
}
constexpr StreamId engine_stream(std::uint16_t process_set) {
  return static_cast<StreamId>(2 * process_set + 1);
}

inline constexpr std::uint16_t kMostProcessSets = 32767;

// Returns the row of an engine's track in the file (its tid). The rows after it are free for its
// negotiations.
constexpr int engine_row(std::uint16_t process_set) {
  constexpr int kFirstSet = 2000;
  constexpr int kRowsOfSet = 1000;
  return process_set == 0 ? 1 : kFirstSet + kRowsOfSet * process_set;
}

struct Event {
  std::uint64_t begin_ns = 0;  // CLOCK_MONOTONIC of this host
  std::uint64_t duration_ns = 0;
  std::uint64_t bytes = 0;  // of a collective, on this rank; of a mark, its number
  std::uint32_t name =
      0;  // number in the track's names; of a fused operation, how many collectives it is
  std::uint32_t sequence = 0;  // number in its stream; of a fused operation, the first one's
  StreamId stream = 0;
  std::uint16_t label = 0;  // "allreduce", as a number in the track's labels
  EventKind kind = EventKind::span;
  std::uint8_t type = CallFacts::kNone;
  std::uint8_t op = CallFacts::kNone;
  bool failed : 1 = false;
  bool fused : 1 = false;
  bool cut : 1 = false;  // the recording ended before the event did

  std::uint64_t end_ns() const { return begin_ns + duration_ns; }
};
static_assert(sizeof(Event) == 40);

// The events of one thread of a rank, or of one engine, in the order in which they ended.
struct TrackRecording {
  int number = 0;     // its row in the file (tid)
  std::string title;  // "program", "engine"
  std::vector<Event> events;
  std::vector<std::string> names;   // by number; 0 is ""
  std::vector<std::string> labels;  // by number; 0 is ""
  std::size_t read = 0;             // events that Recorder::read_on() has returned, these included
};

struct Recording {
  std::vector<TrackRecording> tracks;
  std::uint64_t dropped = 0;  // events without room
};

}  // namespace libhvd
