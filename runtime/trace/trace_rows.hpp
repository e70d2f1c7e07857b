// What a rank has recorded, sorted into the rows in which a viewer shows it.
//
// The events of one row nest: they are those of one thread, or of an engine. Negotiations overlap
// as they like, and are laid out in as many rows as are needed.
#pragma once

#include "trace/event.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace libhvd {

struct TraceRow {
  int number = 0;  // the trace's tid
  std::string title;
  std::size_t lane = 0;       // of the recording, whose names the events have
  std::vector<Event> events;  // what encloses others stands before them
};

// More negotiations at the same time are not shown. What they were stands with the operations, too.
inline constexpr std::size_t kMostNegotiationRows = 256;

// Rows of a recording, from whose lanes the events are taken. What began before `started_ns` is
// dropped: a thread was late to see that an earlier recording had ended.
std::vector<TraceRow> arrange_rows(Recording& recording, std::uint64_t started_ns);

// Which tensor was which in the engines' streams.
class NegotiatedNames {
 public:
  explicit NegotiatedNames(const Recording& recording);
  // "" when that is not recorded.
  std::string_view find(StreamId stream, std::uint32_t sequence) const;

 private:
  struct Stretch {
    const std::vector<std::string>* texts;  // the engine's lane's
    std::uint32_t first;
    std::vector<std::uint32_t> names;
  };
  std::map<StreamId, Stretch> streams_;
};

}  // namespace libhvd
