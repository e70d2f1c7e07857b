// The status pages of one agent's ranks (common/status_page.h), in one file that ranks map.
//
// The agent owns them, on its loop thread. A read never waits for a rank: it leaves out what is
// being written at that moment. The agent itself maps nothing, because a rank may truncate the
// file, and a load from a mapping would then be a SIGBUS. Only create() can fail.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "common/status_page.h"
#include "model/report.hpp"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct CollectiveStatus {
  std::string name;             // "allreduce grad.3"; empty while none is in progress
  std::uint64_t start_ns = 0;   // by CLOCK_MONOTONIC
  double seconds = 0;           // since the start
  std::uint64_t completed = 0;  // how many have ended before
};

struct RankStatus {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  CollectiveStatus blocking;
  CollectiveStatus background;     // the one that has waited longest
  std::string background_missing;  // ranks that have not submitted it: "2,5-7"; empty if unknown
  std::string last_error;
  bool error_of_peer = false;  // the last error is that another rank died or left
};

// What a rank has reported of the training's progress. 0: not known.
struct RankProgress {
  int rank = 0;
  bool called_init = false;  // it has called hvd_init
  bool in_init = false;      // it waits there for other ranks
  std::optional<std::uint64_t> epoch;
  std::uint64_t epochs = 0;
  std::uint64_t step = 0;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t progress_ns = 0;  // by CLOCK_MONOTONIC: when it last reported steps or samples
  std::uint64_t waiting_ns = 0;   // in collectives, for other ranks
  std::optional<double> loss;

  bool reports() const { return epoch || step > 0 || steps > 0 || samples > 0; }
};

class StatusPages {
 public:
  // Makes `folder`/status with one page for each of `count` ranks. `duties`: what the launcher does
  // so that ranks need not, as HVD_LAUNCHER_ bits. Error: the file cannot be made, or lacks room.
  static Result<StatusPages> create(const std::filesystem::path& folder, std::size_t count,
                                    std::uint32_t duties = 0);

  // Adds a page, with the next index. Error: as of create().
  Result<void> add();

  // Gives the file its name again, if nothing has that any more: a link to our descriptor. Returns
  // whether that was needed. Error: there can be no link.
  Result<bool> restore() const;

  // Returns the value of HVD_STATUS for the rank at `index`.
  std::string location(std::size_t index) const;

  // Returns the eventfd that the rank inherits as HVD_NOTICE_FD. It is close-on-exec, which spawn()
  // clears.
  int notice_fd(std::size_t index) const { return notice_fds_[index].get(); }

  // Returns what the rank does now. A rank without libhvd has an empty status.
  RankStatus read(std::size_t index) const;

  // Returns how far the rank's training is, without the rank's number.
  RankProgress progress(std::size_t index) const;

  // Returns what the rank has counted so far.
  RankCounters counters(std::size_t index) const;

  // Returns the reason that the rank has reported for its end. before_stop: it was reported before
  // the first ask_to_stop().
  RankFailure failure(std::size_t index) const;

  // Writes the pid of the rank's process into its page.
  void set_pid(std::size_t index, int pid);

  // Asks every rank to stop at its next step.
  void ask_to_stop();

 private:
  StatusPages() = default;
  hvd_status_page copy(std::size_t index) const;
  void read_at(std::size_t index, std::size_t offset, void* into, std::size_t size) const;
  void write_at(std::size_t index, std::size_t offset, std::uint32_t value);

  // Returns `read` of a copy of the page. The copy was taken while the rank wrote nothing under the
  // seqlock at that offset. Returns an empty value if the rank keeps writing there.
  template <class Read>
  auto read_guarded(std::size_t index, std::size_t sequence_offset, const Read& read) const
      -> decltype(read(copy(index)));

  std::filesystem::path path_;
  Fd file_;
  std::uint32_t duties_ = 0;
  std::vector<Fd> notice_fds_;
  std::uint32_t notices_ = 0;                                          // sent so far
  std::uint64_t stop_ns_ = std::numeric_limits<std::uint64_t>::max();  // by CLOCK_MONOTONIC
};

// Limits all times in the counters to the `seconds` that the rank has run: it can write anything
// into its page.
RankCounters within(double seconds, RankCounters counters);

}  // namespace hvdrun
