// A rank's membership in a job, from hvd_init to hvd_shutdown: the one owner of everything that the
// runtime holds.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/chosen_ranks.hpp"
#include "bootstrap/rank_info.hpp"
#include "bootstrap/topology.hpp"
#include "bootstrap/wireup.hpp"
#include "collective/communicator.hpp"
#include "common/tick_clock.hpp"
#include "engine/engine.hpp"
#include "gpu/device_calls.hpp"
#include "session/process_sets.hpp"
#include "session/signal_watch.hpp"
#include "session/status_page.hpp"
#include "trace/call_trace.hpp"
#include "trace/timeline.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

// What the launcher and SLURM say about the job.
struct JobInfo {
  int restart_count = 0;
  std::optional<std::int64_t> end_time;  // seconds since 1970
  EngineSettings engine;
  WireupOptions wireup;  // of process sets
  std::string host;
};

// What a program asks of its start.
struct StartOptions {
  std::optional<std::vector<int>> ranks = std::nullopt;  // see BootstrapOptions
  std::vector<std::vector<int>> process_sets = {};       // made then, numbers 1, 2, …
  std::string fault = {};  // what this rank has got wrong with these sets; "": nothing
};

class Session {
 public:
  // Joins the job that the environment describes; returns when all ranks have that take part.
  // `starts`: of this process. `lasting` gets what the process must keep until its end, also when
  // this fails (see Bootstrap::lasting).
  static Result<std::unique_ptr<Session>> open(const Environment& environment,
                                               const StartOptions& wanted,
                                               const std::shared_ptr<StartCounts>& starts,
                                               std::shared_ptr<void>& lasting);

  // Leaves it.
  ~Session();

  // In a child just forked, which has no part in the job.
  void close_in_child();

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Topology& topology() const { return topology_; }
  Communicator& communicator() { return communicator_; }
  // Of a process set; 0: of all ranks. That one starts with its first use, as its thread is of no
  // use to many programs. The caller holds Process::state or Process::calls.
  Result<std::shared_ptr<Engine>> engine(std::int32_t process_set);
  // Of what was submitted to the engines.
  const std::shared_ptr<DeviceCalls>& device_calls() const { return device_calls_; }

  // Collective; the caller holds Process::calls.
  Result<std::int32_t> add_process_set(std::vector<int> ranks);
  Result<void> remove_process_set(std::int32_t process_set);
  // The last rank to join.
  Result<int> join();

  // Of a process set, in ascending order.
  Result<std::vector<int>> ranks_of(std::int32_t process_set) const;
  std::vector<std::int32_t> process_set_numbers() const;

  // The status page shows one collective at a time: false when it shows one already.
  bool take_page() { return !page_taken_.exchange(true, std::memory_order_acquire); }
  void give_page() { page_taken_.store(false, std::memory_order_release); }
  // Around each of the calls in the program's order; whether the page shows it.
  void begin_turn(bool shown) { turn_shown_ = shown; }
  void end_turn();
  StatusPage& page() { return page_; }
  Timeline& timeline() { return timeline_; }
  // The blocking collectives, for the timeline. The caller holds Process::calls.
  CallTrace& call_trace() { return call_trace_; }
  SignalWatch& signals() { return signals_; }
  TickClock& clock() { return clock_; }

  int restart_count() const { return job_info_.restart_count; }

  // Seconds until the job must be over, as the launcher or SLURM says; infinity when neither does.
  double seconds_left() const;

 private:
  Result<void> add_first_process_sets(const StartOptions& wanted);
  std::string name_of(std::size_t rank) const {
    return "rank " + std::to_string(communicator_.number(static_cast<int>(rank)));
  }
  void watch_for_stalls();
  std::uint64_t rounds_in_background() const;
  void show_missing(const std::vector<int>& missing);
  StallListener listener(std::int32_t process_set);
  EngineOptions engine_options(std::int32_t process_set);
  Result<std::shared_ptr<ProcessSet>> find_process_set(std::int32_t process_set) const;

  Session(const Environment& environment, std::unique_ptr<Bootstrap> bootstrap, Wireup wireup,
          StatusPage page, JobInfo job_info, const TimelineOptions& timeline);

  // Stands for the calls in the program's order where a process set's number does for its engine.
  static constexpr std::int32_t kProgramsOrder = -1;

  Environment environment_;
  std::unique_ptr<Bootstrap> bootstrap_;
  Topology topology_;
  Communicator communicator_;
  Timeline timeline_;
  CallTrace call_trace_;
  std::shared_ptr<DeviceCalls> device_calls_ = std::make_shared<DeviceCalls>();
  mutable std::mutex engines_;      // guards the next two
  std::shared_ptr<Engine> engine_;  // of all ranks
  ProcessSets process_sets_;
  std::int32_t last_process_set_ = 0;
  std::unique_ptr<Bridge> bridge_;  // see Wireup
  std::atomic<bool> page_taken_{false};
  std::mutex background_;                // serialises the engines' writing to the page
  std::optional<std::int32_t> showing_;  // the process set whose engine shows a wait there
  bool turn_shown_ = false;              // a call in the program's order is shown there
  bool some_ranks_ = false;              // not all of the job have started together
  StreamLanes streams_;
  std::optional<MpiLibrary> mpi_;  // see Wireup
  StatusPage page_;
  SignalWatch signals_;
  TickClock clock_;
  JobInfo job_info_;
};

}  // namespace libhvd
