// Pieces of JSON (RFC 8259), appended to a text.
#pragma once

#include "trace/call_trace.hpp"
#include "trace/clock_sync.hpp"
#include "trace/recorder.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace libhvd {

// A string with its quotes. `bytes` may be anything: what is not valid UTF-8 becomes U+FFFD, as
// JSON has to be UTF-8.
void append_json_string(std::string& json, std::string_view bytes);

// Nanoseconds as microseconds, "12.345": the unit of the trace event format.
void append_microseconds(std::string& json, std::int64_t ns);

// What a rank has recorded, sorted into the rows in which a viewer shows it.
//
// The events of one row nest: they are those of one thread, or of an engine. Negotiations overlap
// as they like, and are laid out in as many rows as are needed.

struct TraceRow {
  int number = 0;  // the trace's tid
  std::string title;
  std::size_t lane = 0;       // of the recording, whose names the events have
  std::vector<Event> events;  // what encloses others stands before them
};

// What of a recording is in the file already, for one that is written in parts.
struct TraceProgress {
  bool named = false;                                    // the rank
  std::set<int> rows;                                    // that have their titles
  std::map<int, std::vector<std::uint64_t>> busy_until;  // negotiations' rows, by engine's row
};

// More negotiations at the same time are not shown. What they were stands with the operations, too.
inline constexpr std::size_t kMostNegotiationRows = 256;

// Rows of a recording, from whose lanes the events are taken. What began before `started_ns` is
// dropped: a thread was late to see that an earlier recording had ended.
std::vector<TraceRow> arrange_rows(Recording& recording, std::uint64_t started_ns,
                                   TraceProgress& progress);

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

// A rank's recording as text of the trace event format, which ui.perfetto.dev and chrome://tracing
// show ("Trace Event Format", Google, the JSON Object Format): a process is a rank, a thread one of
// its rows.

// Whose recording it is, and how its times become those of the file.
struct RankView {
  int rank = 0;
  std::string host;
  std::uint64_t started_ns = 0;  // by the rank's clock
  ClockMap clock;
  std::int64_t origin_ns = 0;  // the file's 0, by rank 0's clock

  std::int64_t time(std::uint64_t own_ns) const;  // in the file, ns, at least 0
};

// When this rank came to each of its collectives.
std::vector<Arrival> arrivals_of(const Recording& recording, const RankView& view);

class TraceText {
 public:
  // `progress`: when the recording is one of several parts.
  TraceText(Recording recording, RankView view, LastArrivals last,
            TraceProgress* progress = nullptr);
  TraceText(const TraceText&) = delete;
  TraceText& operator=(const TraceText&) = delete;

  // Its next events, whole, each with ",\n" before it; "" after the last.
  std::string next();
  void rewind();

 private:
  void append_metadata(std::string& json);
  void append_event(std::string& json, const TraceRow& row, std::size_t index) const;
  void append_title(std::string& json, const TraceRow& row, const Event& event) const;
  void append_arguments(std::string& json, const TraceRow& row, const Event& event) const;
  void append_members(std::string& json, const Event& event) const;
  void append_phases(std::string& json, const TraceRow& row, const Event& event) const;
  // Also of a fused operation: the last to the last of what it is made of.
  std::optional<LastArrival> last_arrival(const Event& event) const;

  Recording recording_;
  const RankView view_;
  const LastArrivals last_;
  const NegotiatedNames names_;
  TraceProgress own_progress_;
  TraceProgress& progress_;
  const std::vector<TraceRow> rows_;
  bool begun_ = false;
  std::size_t row_ = 0;
  std::size_t event_ = 0;
};

// What stands around the events of all ranks, of which the first ",\n" is left out.
std::string trace_head(int ranks, std::int64_t clock_error_ns);
std::string trace_tail();

}  // namespace libhvd
