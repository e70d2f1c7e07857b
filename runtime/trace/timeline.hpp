// The timeline of a job: what all ranks record from a start to a stop, in one file that rank 0
// writes. Ranks send nothing before the stop. Until then each rank has a journal: rank 0 under the
// file's name, the others in FILE.rank<R>, if their hosts have its folder.
//
// If a rank has died, the ranks cannot meet at the stop. Then each writes what it has recorded in
// place of its journal. The journal of a rank that was killed stays.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "collective/communicator.hpp"
#include "trace/clock_offsets.hpp"
#include "trace/journal.hpp"
#include "trace/recorder.hpp"
#include "trace/trace_text.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace libhvd {

// The environment's settings: HVD_TIMELINE (or HOROVOD_TIMELINE), HVD_TIMELINE_MB and
// HOROVOD_TIMELINE_MARK_CYCLES.
struct TimelineOptions {
  std::string path;  // "": the timeline is off at the start
  std::size_t bytes = Recorder::kDefaultBytes;
  bool horovods_words = false;  // the path is from HOROVOD_TIMELINE
  bool mark_cycles = false;
};
// Error: HVD_TIMELINE_MB is not a number in its range.
Result<TimelineOptions> read_timeline_options(const Environment& environment);

// One thread at a time, except for the recorder.
class Timeline {
 public:
  // `host_index`: the same on ranks that share a clock.
  Timeline(int host_index, std::string host, TimelineOptions options)
      : host_index_(host_index), host_(std::move(host)), options_(std::move(options)) {}
  // Calls abandon().
  ~Timeline() { abandon(); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  const std::shared_ptr<Recorder>& recorder() const { return recorder_; }
  bool running() const { return running_.has_value(); }

  // Starts recording. `path` is used on rank 0 only. Collective. Error, on all ranks: it runs
  // already, or rank 0 cannot write the file.
  Result<void> start(Communicator& communicator, const std::string& path);

  // Ends the recording and writes the file. Collective. Error: it does not run; rank 0 could not
  // write the file, on all ranks; or the ranks could not meet, and each has done what abandon()
  // does.
  Result<void> stop(Communicator& communicator);

  // Ends the recording, if there is one, in a file of this rank's own, and prints its name on
  // stderr. Not collective.
  void abandon();

 private:
  struct Running {
    std::string path;
    int size;
    RankView view;
    ClockMap::Estimate first;  // of the clock, at the start
    std::int64_t clock_error_ns;
    std::unique_ptr<TraceJournal> journal;  // null if its file could not be created
  };

  // Ends the recording. Call it only while running().
  Running end();
  // Exchanges what a rank needs from the others for its part of the file.
  Result<LastArrivals> meet(Communicator& communicator, Running& ended,
                            const Recording& recording) const;

  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  const int host_index_;
  const std::string host_;
  const TimelineOptions options_;
  std::optional<Running> running_;
};

}  // namespace libhvd
