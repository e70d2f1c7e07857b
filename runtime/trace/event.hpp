// What a rank records for the timeline: small values with names by number.
#pragma once

#include "collective/call.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

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
};

struct Recording {
  std::vector<LaneRecording> lanes;
  std::uint64_t dropped = 0;  // events for which there was no room
};

}  // namespace libhvd
