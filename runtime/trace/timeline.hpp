// Values and texts of all ranks, over the communicator.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "bootstrap/rank_info.hpp"
#include "collective/communicator.hpp"
#include "trace/clock_sync.hpp"
#include "trace/journal.hpp"
#include "trace/recorder.hpp"
#include "trace/trace_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace libhvd {

// The bytes of all ranks, rank 0's first. Collective. `sizes`, if not null, gets each rank's.
Result<std::vector<std::byte>> gather_bytes(Communicator& communicator,
                                            std::span<const std::byte> own,
                                            std::vector<std::size_t>* sizes = nullptr);

// The same with values; ranks may have different numbers of them.
template <class T>
Result<std::vector<T>> gather_values(Communicator& communicator, const std::vector<T>& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  HVD_TRY(const auto bytes, gather_bytes(communicator, std::as_bytes(std::span(own))));
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// A text of each rank to rank 0, however long. `next` gives this rank's piece by piece, at last "";
// a piece reaches `sink`, which is called on rank 0 only, whole. Collective.
Result<void> gather_pieces(Communicator& communicator, const std::function<std::string()>& next,
                           const std::function<void(std::string_view)>& sink);

// The timeline of a job: what all ranks record from a start to a stop, in one file that rank 0
// writes. Nothing of it is sent before the stop; until then each rank has a journal, rank 0 under
// the file's name and the others in FILE.rank<R>, where their hosts have its folder.
//
// When the ranks cannot come together at the stop, because one has died, each writes what it has
// recorded in the place of its journal. The journal of a rank that was killed stays.

// What the environment asks for: HVD_TIMELINE (or HOROVOD_TIMELINE) and HVD_TIMELINE_MB.
struct TimelineOptions {
  std::string path;  // "": no timeline from the beginning
  std::size_t bytes = Recorder::kDefaultBytes;
};
Result<TimelineOptions> read_timeline_options(const Environment& environment);

// One thread at a time, but for the recorder.
class Timeline {
 public:
  // `host_index`: the same on ranks that share a clock. `bytes`: what a recording may take.
  Timeline(int host_index, std::string host, std::size_t bytes)
      : host_index_(host_index), host_(std::move(host)), bytes_(bytes) {}
  // Saves what was recorded and not written, see abandon().
  ~Timeline() { abandon(); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  const std::shared_ptr<Recorder>& recorder() const { return recorder_; }
  bool running() const { return running_.has_value(); }

  // Collective. `path` and what is wrong with it are rank 0's. Error, on all ranks: it runs
  // already, rank 0 could not write the file.
  Result<void> start(Communicator& communicator, const std::string& path);

  // Collective. Error: it does not run; rank 0 could not write the file, and says so on all ranks;
  // the ranks could not come together, and what abandon() does has been done.
  Result<void> stop(Communicator& communicator);

  // Not collective: ends the recording, if there is one, in a file of this rank's own, and says so
  // on stderr.
  void abandon();

 private:
  struct Running {
    std::string path;
    int size;
    RankView view;
    ClockMap::Estimate first;  // of the clock, at the start
    std::int64_t clock_error_ns;
    std::unique_ptr<TraceJournal> journal;  // null: there can be none
  };

  // Ends the recording. There is one.
  Running end();
  Result<LastArrivals> meet(Communicator& communicator, Running& ended,
                            const Recording& recording) const;

  const std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  const int host_index_;
  const std::string host_;
  const std::size_t bytes_;
  std::optional<Running> running_;
};

}  // namespace libhvd
