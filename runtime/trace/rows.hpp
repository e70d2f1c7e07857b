// Sorts what a rank has recorded into the rows in which a viewer shows it. Pure functions and
// values.
//
// The events of one row must nest. Those of one thread or of an engine do. Negotiations overlap in
// any way, and get as many rows as they need.
#pragma once

#include "trace/event.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace libhvd {

struct TraceRow {
  int number = 0;  // its tid in the file
  std::string title;
  std::size_t track = 0;      // of the recording; it has the events' names
  std::vector<Event> events;  // an event comes before those inside it
};

// How far a recording is in the file, for a file that is written in parts.
struct TraceProgress {
  bool named = false;  // the rank's name is there
  std::set<int> rows;  // whose titles are there
  std::map<int, std::vector<std::uint64_t>>
      busy_until;  // the rows of negotiations, by their engine's row
};

// Negotiations beyond this many at the same time are not shown. Their times are shown with their
// operations too.
inline constexpr std::size_t kMostNegotiationRows = 256;

// Moves the events of a recording into rows. Drops events that began before `started_ns`: their
// thread noticed late that an earlier recording had ended.
std::vector<TraceRow> arrange_rows(Recording& recording, std::uint64_t started_ns,
                                   TraceProgress& progress);

// The names of the tensors in the engines' streams, by number.
class NegotiatedNames {
 public:
  explicit NegotiatedNames(const Recording& recording);
  // Returns "" if the recording does not have it.
  std::string_view find(StreamId stream, std::uint32_t sequence) const;

 private:
  struct Recorded {
    const std::vector<std::string>* texts;  // the names of the engine's track
    std::uint32_t first;
    std::vector<std::uint32_t> names;
  };
  std::map<StreamId, Recorded> streams_;
};

}  // namespace libhvd
