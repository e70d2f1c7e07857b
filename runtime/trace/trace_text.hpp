// A rank's recording as text of the trace event format, which ui.perfetto.dev and chrome://tracing
// show ("Trace Event Format", Google, the JSON Object Format): a process is a rank, a thread one of
// its rows.
#pragma once

#include "trace/arrivals.hpp"
#include "trace/clock_offsets.hpp"
#include "trace/event.hpp"
#include "trace/trace_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

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
  TraceText(Recording recording, RankView view, LastArrivals last);
  TraceText(const TraceText&) = delete;
  TraceText& operator=(const TraceText&) = delete;

  // Its next events, whole, each with ",\n" before it; "" after the last.
  std::string next();
  void rewind();

 private:
  void append_metadata(std::string& json) const;
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
  const std::vector<TraceRow> rows_;
  bool begun_ = false;
  std::size_t row_ = 0;
  std::size_t event_ = 0;
};

// What stands around the events of all ranks, of which the first ",\n" is left out.
std::string trace_head(int ranks, std::int64_t clock_error_ns);
std::string trace_tail();

}  // namespace libhvd
