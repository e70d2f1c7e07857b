// A rank's membership in a job, from hvd_init to hvd_shutdown: the one owner of everything that the
// runtime holds.
#pragma once

#include "api/meeting.hpp"
#include "base/environment.hpp"
#include "base/result.hpp"
#include "base/tick_clock.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/topology.hpp"
#include "collective/communicator.hpp"
#include "engine/engine.hpp"
#include "status/status_page.hpp"
#include "training/signal_watch.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace libhvd {

// What the launcher and SLURM say about the job.
struct Surroundings {
  int restart_count = 0;
  std::optional<std::int64_t> end_time;  // seconds since 1970
};

class Session {
 public:
  // Joins the job that the environment describes; returns when all ranks have. `generation`: the
  // how-many-th time in this process. `lasting` gets what the process must keep until its end, also
  // when this fails (see Bootstrap::lasting).
  static Result<std::unique_ptr<Session>> open(const Environment& environment,
                                               std::uint64_t generation,
                                               std::shared_ptr<void>& lasting);

  // Leaves it.
  ~Session();

  // In a child just forked, which has no part in the job.
  void close_in_child();

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Topology& topology() const { return topology_; }
  Communicator& communicator() { return communicator_; }
  // Starts with its first use, as its thread is of no use to most programs. The caller holds
  // Process::state.
  Result<std::shared_ptr<Engine>> engine();
  StatusPage& page() { return page_; }
  SignalWatch& signals() { return signals_; }
  TickClock& clock() { return clock_; }

  int restart_count() const { return surroundings_.restart_count; }

  // Seconds until the job must be over, as the launcher or SLURM says; infinity when neither does.
  double seconds_left() const;

 private:
  Session(std::unique_ptr<Bootstrap> bootstrap, Meeting meeting, StatusPage page,
          Surroundings surroundings);

  std::unique_ptr<Bootstrap> bootstrap_;
  Topology topology_;
  Communicator communicator_;
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Bridge> bridge_;  // see Meeting
  StatusPage page_;
  SignalWatch signals_;
  TickClock clock_;
  Surroundings surroundings_;
};

}  // namespace libhvd
