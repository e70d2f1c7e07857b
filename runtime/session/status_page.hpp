// The rank's side of the page that it shares with its launcher's agent. What stands in it, and who
// may write what, is in common/status_page.h. An object without a page does nothing.
//
// Writers are serialised by the owner; the agent reads at any time.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "common/status_page.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace libhvd {

struct Notice {
  std::uint32_t bits = 0;
  std::uint64_t stop_at_step = 0;
  double seconds_left = std::numeric_limits<double>::infinity();
};

class StatusPage {
 public:
  // The page that HVD_STATUS names; none when it is unset. Error: it is not PATH@OFFSET
  // (HVD_ERROR_ENVIRONMENT), or there is no page of our version: the job can do without.
  static Result<StatusPage> attach(const Environment& environment);

  // The same for a process that ends and may never have joined the job: nothing says there that it
  // has, and there is room for what set_failure() writes. Error (HVD_ERROR_UNSUPPORTED) also
  // without a page; HVD_ERROR_FORKED in another process than the one that the launcher has started,
  // or that has joined.
  static Result<StatusPage> attach_for_failure(const Environment& environment);

  StatusPage() = default;
  explicit operator bool() const { return page() != nullptr; }

  // `kind`: "allreduce"; `name`: the tensor's, null without one; `now_ns` by CLOCK_MONOTONIC.
  void begin_collective(std::string_view kind, const char* name, std::uint64_t now_ns);
  // `duration_ns` in all, `waiting_ns` of it waiting for other ranks.
  void end_collective(bool completed, std::uint64_t duration_ns, std::uint64_t waiting_ns);

  // Of the collectives in the background that wait for other ranks, the one that has waited
  // longest, since `start_ns`; the missing ranks as "2,5-7". May be called while another thread
  // begins or ends a collective; not by several threads at a time.
  void set_background(std::string_view kind, const char* name, std::uint64_t start_ns,
                      std::string_view missing);
  void clear_background(bool completed);
  // Shows the collective in progress there too, with the ranks that it waits for: whom a launcher
  // that knows only of all ranks would look for in vain. The caller is who has begun it.
  void set_missing(std::string_view missing);

  void set_step(std::uint64_t step);
  // The epoch before is over, since `now_ns` by CLOCK_MONOTONIC.
  void set_epoch(std::uint64_t epoch, std::uint64_t now_ns);
  void add_samples(std::uint64_t samples);
  // Error: a name that is empty or too long, or one too many. The same without a page, but that
  // there the number of names is not known.
  Result<void> set_metric(std::string_view name, double value);
  void set_error(std::string_view text);
  // Only on a page of attach_for_failure(). `text` may be longer than the room.
  void set_failure(std::string_view text, bool because_of_peer, std::uint64_t now_ns);
  // For a process that exits after an error, without a text; nothing if it has reported a failure.
  void set_failed_exit(bool because_of_peer, std::uint64_t now_ns);
  void set_had_to_stop();               // the ranks have agreed to, before the program's end
  void set_left(std::uint64_t now_ns);  // a clean hvd_shutdown

  Notice notice() const;

  // The launcher says which ranks others wait for in a collective, so nobody else needs to.
  bool launcher_tells_stalls() const;

 private:
  explicit StatusPage(Mapping mapping) : mapping_(std::move(mapping)) {}
  hvd_status_page* page() const { return reinterpret_cast<hvd_status_page*>(mapping_.data()); }
  void close_epoch(std::uint64_t now_ns);

  // The epoch in progress, and what was done before it.
  struct Epoch {
    std::uint64_t start_ns = 0;
    std::uint64_t step = 0;
    std::uint64_t samples = 0;
  };

  Mapping mapping_;
  std::optional<Epoch> epoch_;
};

}  // namespace libhvd
