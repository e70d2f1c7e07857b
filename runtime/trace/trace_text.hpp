// Writes a rank's recording in the trace event format, which ui.perfetto.dev and chrome://tracing
// show: a process is a rank, a thread is one of its rows. Pure functions and values. Source: "Trace
// Event Format", Google, the JSON Object Format.
#pragma once

#include "trace/arrivals.hpp"
#include "trace/clock_offsets.hpp"
#include "trace/event.hpp"
#include "trace/rows.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

// Which rank a recording is of, and how its times become times in the file.
struct RankView {
  int rank = 0;
  std::string host;
  std::uint64_t started_ns = 0;  // by the rank's clock
  ClockMap clock;
  std::int64_t origin_ns = 0;   // the file's time 0, by rank 0's clock
  bool horovods_words = false;  // as in Horovod's timelines: NEGOTIATE_ALLREDUCE, allreduce.NAME

  // Converts a time of the rank's clock. Returns ns in the file, at least 0.
  std::int64_t time(std::uint64_t own_ns) const;
};

// Returns when this rank entered each of its collectives.
std::vector<Arrival> arrivals_of(const Recording& recording, const RankView& view);

class TraceText {
 public:
  // `progress`: for a recording that is one of several parts; it must outlive this object.
  TraceText(Recording recording, RankView view, LastArrivals last,
            TraceProgress* progress = nullptr);
  TraceText(const TraceText&) = delete;
  TraceText& operator=(const TraceText&) = delete;

  // Returns some of the remaining events, each whole and after ",\n"; "" after the last.
  std::string next();
  // Makes next() begin again with the first event.
  void rewind();

 private:
  void append_metadata(std::string& json);
  void append_event(std::string& json, const TraceRow& row, std::size_t index) const;
  void append_title(std::string& json, const TraceRow& row, const Event& event) const;
  void append_arguments(std::string& json, const TraceRow& row, const Event& event) const;
  void append_members(std::string& json, const Event& event) const;
  void append_phases(std::string& json, const TraceRow& row, const Event& event) const;
  // Returns the last arrival at the collective; of a fused operation, the last at any of its
  // collectives.
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

// Return the text before and after the events of all ranks. The file leaves out the first event's
// ",\n".
std::string trace_head(int ranks, std::int64_t clock_error_ns);
std::string trace_tail();

}  // namespace libhvd
