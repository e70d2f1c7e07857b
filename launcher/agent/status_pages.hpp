// The status pages of one agent's ranks (common/status_page.h), in one file that ranks map.
//
// Owned by the agent. Reading never waits for a rank: what is being written at that moment is left
// out. The agent itself maps nothing: a rank may truncate the file, and a load from a mapping would
// be a SIGBUS then.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "common/status_page.h"
#include "model/report.hpp"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace hvdrun {

struct CollectiveStatus {
  std::string name;             // "allreduce grad.3"; empty: none is in progress
  std::uint64_t start_ns = 0;   // by CLOCK_MONOTONIC
  double seconds = 0;           // since then
  std::uint64_t completed = 0;  // how many were before
};

struct RankStatus {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  CollectiveStatus blocking;
  CollectiveStatus background;     // the one that has waited longest
  std::string background_missing;  // ranks that have not submitted it, "2,5-7"; empty: not known
  std::string last_error;
};

class StatusPages {
 public:
  // Makes `folder`/status with one page for each of `count` ranks, which say what the launcher
  // does: `duties`, HVD_LAUNCHER_ bits.
  static Result<StatusPages> create(const std::filesystem::path& folder, std::size_t count,
                                    std::uint32_t duties = 0);

  // The value of HVD_STATUS for the rank at `index`.
  std::string location(std::size_t index) const;

  // The eventfd to hand down as HVD_NOTICE_FD. Close-on-exec: the spawner clears that.
  int notice_fd(std::size_t index) const { return notice_fds_[index].get(); }

  RankStatus read(std::size_t index) const;

  // What it has counted so far.
  RankCounters counters(std::size_t index) const;

  // What it has told of why it ends; before_stop is about the first ask_to_stop().
  RankFailure failure(std::size_t index) const;

  // Tells the rank which process stands for it.
  void set_pid(std::size_t index, int pid);

  // Asks every rank to stop at its next step.
  void ask_to_stop();

 private:
  StatusPages() = default;
  hvd_status_page copy(std::size_t index) const;
  void read_at(std::size_t index, std::size_t offset, void* into, std::size_t size) const;
  void write_at(std::size_t index, std::size_t offset, std::uint32_t value);

  // What `read` makes of a copy of the page that was taken while nothing was written under the
  // seqlock at that offset; empty when the rank keeps writing it.
  template <class Read>
  auto read_guarded(std::size_t index, std::size_t sequence_offset, const Read& read) const
      -> decltype(read(copy(index)));

  std::filesystem::path path_;
  Fd file_;
  std::vector<Fd> notice_fds_;
  std::uint32_t notices_ = 0;                                          // given so far
  std::uint64_t stop_ns_ = std::numeric_limits<std::uint64_t>::max();  // by CLOCK_MONOTONIC
};

// A rank can write anything into its page, but nothing has taken it longer than it ran.
RankCounters within(double seconds, RankCounters counters);

}  // namespace hvdrun
