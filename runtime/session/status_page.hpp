// The rank's side of the status page that it shares with its launcher's agent. common/status_page.h
// defines the fields and who writes each. An object without a page does nothing.
//
// The owner serialises writers, except where a comment says otherwise. The agent reads at any time.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "common/status_page.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace libhvd {

// What the launcher has asked of this rank, see hvd_notice and hvd_time_left.
struct Notice {
  std::uint32_t bits = 0;  // HVD_NOTICE_
  std::uint64_t stop_at_step = 0;
  double seconds_left = std::numeric_limits<double>::infinity();
};

class StatusPage {
 public:
  // Maps the page that HVD_STATUS names, and notes on it that this process has joined. Returns an
  // object without a page if the variable is unset. Error: it is not PATH@OFFSET
  // (HVD_ERROR_ENVIRONMENT); there is no page of this version. A job works without a page.
  static Result<StatusPage> attach(const Environment& environment);

  // Maps the page for the progress of a program that does not join the job. Returns an object
  // without a page if the variable is unset, or if another process of the rank has joined. Error:
  // as of attach().
  static Result<StatusPage> attach_for_progress(const Environment& environment);

  // Maps the page for set_failure() and reserves the room for its text. For a process that ends and
  // may never have joined: does not note that it has. Error: as of attach();
  // HVD_ERROR_UNSUPPORTED also without a page; HVD_ERROR_FORKED if this is neither the process that
  // the launcher has started nor one that has joined.
  static Result<StatusPage> attach_for_failure(const Environment& environment);

  StatusPage() = default;
  explicit operator bool() const { return page() != nullptr; }

  // Shows a collective. `kind`: "allreduce"; `name`: the tensor's, may be null; `now_ns` by
  // CLOCK_MONOTONIC.
  void begin_collective(std::string_view kind, const char* name, std::uint64_t now_ns);
  // Ends it. It lasted `duration_ns`, of which it waited `waiting_ns` for other ranks.
  void end_collective(bool completed, std::uint64_t duration_ns, std::uint64_t waiting_ns);

  // Shows the collective in the background that has waited longest for other ranks, since
  // `start_ns` by CLOCK_MONOTONIC. `missing` is "2,5-7". May be called while another thread begins
  // or ends a collective, but not by several threads at a time.
  void set_background(std::string_view kind, const char* name, std::uint64_t start_ns,
                      std::string_view missing);
  void clear_background(bool completed);
  // Shows the collective in progress as set_background() does, with the ranks that it waits for. It
  // is needed when only some ranks called hvd_init: the launcher cannot know which ranks are
  // missing. Call it on the thread that began the collective.
  void set_missing(std::string_view missing);

  // Each `now_ns` below is by CLOCK_MONOTONIC.
  void set_step(std::uint64_t step, std::uint64_t now_ns);
  void set_steps_in_all(std::uint64_t steps);
  // Returns what set_step() has set; 0 without a page.
  std::uint64_t step() const;
  // Begins an epoch, and ends the one before.
  void set_epoch(std::uint64_t epoch, std::uint64_t now_ns);
  void set_epochs_in_all(std::uint64_t epochs);
  // Returns whether set_epoch() of this epoch would change nothing. Works without a page.
  bool is_in_epoch(std::uint64_t epoch) const { return epoch_ && epoch_->number == epoch; }
  void add_samples(std::uint64_t samples, std::uint64_t now_ns);
  // Error: the name is empty or too long; there is no room for another name. Without a page only
  // the name is checked.
  Result<void> set_metric(std::string_view name, double value);
  // Sets the text of the last error, and whether it is that another rank died or left.
  void set_error(std::string_view text, bool of_peer);
  // Reports why the process is about to end. Only on a page of attach_for_failure(). A text that is
  // longer than the room loses its middle.
  void set_failure(std::string_view text, bool because_of_peer, std::uint64_t now_ns);
  // Notes that the process exits after an error. Does nothing if it has reported a failure.
  void set_failed_exit(bool because_of_peer, std::uint64_t now_ns);
  // Notes that the ranks have agreed to stop before the program's end.
  void set_had_to_stop();
  // These two are for a job that continues when ranks are lost.
  void set_generation(std::uint32_t generation);
  void set_commits(std::uint64_t commits);
  // Notes a clean hvd_shutdown, and ends the last epoch.
  void set_left(std::uint64_t now_ns);

  Notice notice() const;

  // Returns whether the launcher reports which ranks a collective waits for, so that the ranks need
  // not.
  bool launcher_reports_stalls() const;

 private:
  static Result<StatusPage> map(const Environment& environment);
  explicit StatusPage(Mapping mapping) : mapping_(std::move(mapping)) {}
  hvd_status_page* page() const { return reinterpret_cast<hvd_status_page*>(mapping_.data()); }
  void close_epoch(std::uint64_t now_ns);

  // The epoch in progress.
  struct Epoch {
    std::uint64_t number = 0;
    std::uint64_t start_ns = 0;
    std::uint64_t step = 0;     // steps done before it
    std::uint64_t samples = 0;  // samples before it
  };

  Mapping mapping_;
  std::optional<Epoch> epoch_;
};

}  // namespace libhvd
