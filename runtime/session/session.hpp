// A rank's membership in a job, from hvd_init to hvd_shutdown or to hvd_reform. The session owns
// everything that the runtime holds: bootstrap, communicator, engines, bridge and streams,
// timeline, status page.
//
// The caller of a collective, and of end_turn() and call_trace(), holds Process::calls
// (c_api/process.hpp). Any thread that keeps the session alive (SessionReader) may call the rest.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "bootstrap/agent_bootstrap.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/chosen_ranks.hpp"
#include "bootstrap/member_link.hpp"
#include "bootstrap/rank_info.hpp"
#include "bootstrap/rank_topology.hpp"
#include "bootstrap/wireup.hpp"
#include "collective/communicator.hpp"
#include "engine/engine.hpp"
#include "gpu/device_calls.hpp"
#include "session/local_device.hpp"
#include "session/process_sets.hpp"
#include "session/shown_collectives.hpp"
#include "session/signal_watch.hpp"
#include "session/status_page.hpp"
#include "trace/call_trace.hpp"
#include "trace/timeline.hpp"
#include "transport/process_memory.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

// What the environment says about the job: the launcher, SLURM and the user.
struct JobInfo {
  int restart_count = 0;
  std::optional<std::int64_t> end_time;  // seconds since 1970
  GivenDevices devices;
  EngineSettings engine;
  bool reproducible = false;  // HVD_REPRODUCIBLE
  bool direct_reads = true;   // HVD_DIRECT_READS
  WireupOptions wireup;       // also of process sets
  std::string host;
};

// The options of a start, see hvd_init_options.
struct StartOptions {
  std::optional<std::vector<int>> ranks = std::nullopt;  // see BootstrapOptions
  std::vector<std::vector<int>> process_sets = {};       // they get the numbers 1, 2, ...
  std::string fault = {};  // what is wrong with this rank's process sets; "": nothing
};

// What a session gets from its process, in which there were others before.
struct ProcessParts {
  std::shared_ptr<StartCounts> starts;
  std::shared_ptr<ProcessMemory> memory;
  std::int64_t first_engine;  // see SessionHandles
  std::uint64_t generation;   // of the session, unless the launcher numbers them
  // In a job that continues when ranks are lost: the link, why this member comes, and its local
  // rank in its first generation, which chose its GPU. Otherwise null.
  MemberLink* link = nullptr;
  MemberCome come = {};
  // It was started later, and was in no generation: see Session::newcomer(). `provisional`: it does
  // not come to one now.
  bool newcomer = false;
  bool provisional = false;
  std::optional<int> first_local_rank = {};
};

// What a session gives to the next one in hvd_reform.
struct CarriedOver {
  StatusPage page = {};
  std::unique_ptr<SignalWatch> signals = std::make_unique<SignalWatch>();
};

class Session {
 public:
  // Joins the job that the environment describes. Returns when all ranks that take part have
  // joined. `lasting` gets what the process must keep until its end, even after an error (see
  // Bootstrap::lasting). Error: a variable is not valid, or the ranks do not find each other in
  // time; HVD_ERROR_REMOVED: the job does not want this process.
  static Result<std::unique_ptr<Session>> open(const Environment& environment,
                                               const StartOptions& wanted,
                                               const ProcessParts& process, CarriedOver carried,
                                               std::shared_ptr<void>& lasting);

  // Leaves the job, without waiting for the other ranks.
  ~Session();

  // Closes the connections in a child that was just forked, which is not part of the job.
  void close_in_child();

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns the numbers of the ranks that are in this session.
  const Topology& topology() const { return topology_; }
  // Returns the numbers that the program sees. In a newcomer they are those that it is likely to
  // have.
  const Topology& numbers() const { return planned_ ? *planned_ : topology_; }
  // Returns whether this process was started while the job runs, and is not in it yet. Its session
  // has one rank.
  bool newcomer() const { return planned_.has_value(); }
  // Returns the HVD_UPDATE_ bits that this rank knows.
  std::uint32_t updates() const { return go_ ? link_->updates() : 0; }
  Communicator& communicator() { return communicator_; }
  // Returns the engine of a process set; 0: the one of all ranks, which starts with its first use,
  // because many programs need no such thread. Error: there is no such set, or this rank is not in
  // it. The caller holds Process::state or Process::calls.
  Result<std::shared_ptr<Engine>> engine(std::int32_t process_set);
  // Returns the calls on device memory that were submitted to the engines.
  const std::shared_ptr<DeviceCalls>& device_calls() const { return device_calls_; }

  // These three are collectives; the caller holds Process::calls.

  // Makes a process set and returns its number. An error on one rank is an error on all.
  Result<std::int32_t> add_process_set(std::vector<int> ranks);
  Result<void> remove_process_set(std::int32_t process_set);
  // Returns the last rank to join.
  Result<int> join();

  // Returns the ranks of a process set, in ascending order. Error: there is no such set.
  Result<std::vector<int>> ranks_of(std::int32_t process_set) const;
  // Returns how many process sets were made; set 0 is not among them.
  std::int32_t process_sets_made() const { return last_process_set_; }
  // Returns the numbers of all process sets, from 0 in ascending order.
  std::vector<std::int32_t> process_set_numbers() const;

  // Gives away what the next session takes over. The last call, after stop().
  CarriedOver carry_over();
  // Returns with what this member comes to the next generation: what it saw of the end of this one.
  MemberCome come_after();
  // Returns the number of this generation, see hvd_generation.
  std::uint64_t generation() const { return generation_; }
  // Returns the number of this member, see hvd_member.
  int member() const;
  // Returns the rank with the newest state, see hvd_newest.
  int newest() const { return go_ ? static_cast<int>(go_->root) : 0; }

  // Ends the engines. Returns why results of calls on GPUs were lost, if no later call has returned
  // that; otherwise nullopt. The last call on the session.
  std::optional<Error> stop();

  // Call it after each call in the program's order.
  void end_turn() {
    if (some_ranks_) clear_missing();
  }
  StatusPage& page() { return page_; }
  // Returns what the status page shows of collectives.
  ShownCollectives& shown() { return shown_; }
  Timeline& timeline() { return timeline_; }
  // Returns the trace of the blocking collectives.
  CallTrace& call_trace() { return call_trace_; }
  SignalWatch& signals() { return *signals_; }

  int restart_count() const { return job_info_.restart_count; }
  int local_device() const { return libhvd::local_device(job_info_.devices, numbers().local_rank); }

  // Returns the seconds until the job must be over, as the launcher or SLURM says (the sooner of
  // both); infinity if neither does.
  double seconds_left() const;

 private:
  // What the environment says of a start.
  struct Start;
  static Result<Start> read_start(const Environment& environment, const StartOptions& wanted,
                                  const ProcessParts& process);
  static Result<std::unique_ptr<Session>> open_in_generation(const Environment& environment,
                                                             const StartOptions& wanted,
                                                             const ProcessParts& process,
                                                             const Start& start,
                                                             CarriedOver carried);
  static Result<std::unique_ptr<Session>> open_provisional(const Environment& environment,
                                                           const StartOptions& wanted,
                                                           const ProcessParts& process,
                                                           const Start& start, CarriedOver carried);
  static Result<std::unique_ptr<Session>> open_wired(const Environment& environment,
                                                     const StartOptions& wanted,
                                                     const ProcessParts& process,
                                                     const Start& start,
                                                     std::unique_ptr<AgentBootstrap> bootstrap,
                                                     CarriedOver& carried, std::uint32_t& accused);
  Result<void> begin(const StartOptions& wanted, const Start& start);
  void listen_to_agent();
  void end_collectives(const GenerationOver& over);
  std::optional<std::string> explain(const Failure& failure);
  Result<std::uint64_t> share_generation(std::uint64_t own);
  Result<void> add_first_process_sets(const StartOptions& wanted);
  // Returns "rank 3", with the rank's number in the job.
  std::string name_of(std::size_t rank) const {
    return "rank " + std::to_string(communicator_.number(static_cast<int>(rank)));
  }
  void watch_waits();
  std::uint64_t rounds_in_background() const;
  void show_missing(const std::vector<int>& missing);
  void clear_missing();
  StallListener make_listener();
  EngineOptions engine_options(std::int32_t process_set);
  Result<std::shared_ptr<ProcessSet>> find_process_set(std::int32_t process_set) const;

  Session(const Environment& environment, const ProcessParts& process,
          std::unique_ptr<Bootstrap> bootstrap, std::optional<GenerationGo> go, Wireup wireup,
          CarriedOver carried, const Start& start);

  // A value of showing_: the calls in the program's order.
  static constexpr int kProgramsOrder = 0;

  Environment environment_;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::uint64_t generation_;
  MemberLink* link_;                // of the process; null: the job ends when a rank is lost
  std::optional<GenerationGo> go_;  // with a link: who is in this generation
  std::atomic<std::uint64_t> explains_since_ns_{0};
  Topology topology_;
  std::optional<Topology> planned_;  // of a newcomer
  StatusPage page_;
  std::atomic<int> last_listener_{kProgramsOrder};
  std::mutex background_;       // guards showing_, and the listeners' writing to the page
  std::optional<int> showing_;  // the number of the listener that shows a wait on the page
  // After the members above, which its threads use.
  Communicator communicator_;
  Timeline timeline_;
  CallTrace call_trace_;
  std::shared_ptr<DeviceCalls> device_calls_ = std::make_shared<DeviceCalls>();
  mutable std::mutex engines_;               // guards the next three
  std::optional<AutotuneLog> autotune_log_;  // until the engine takes it
  std::shared_ptr<Engine> engine_;           // of all ranks
  ProcessSets process_sets_;
  std::int32_t last_process_set_ = 0;
  std::int64_t first_engine_;       // see SessionHandles
  std::unique_ptr<Bridge> bridge_;  // see Wireup
  bool some_ranks_ = false;         // only some ranks of the job have started together
  StreamLanes streams_;
  std::optional<MpiLibrary> mpi_;  // see Wireup
  ShownCollectives shown_{page_};
  std::unique_ptr<SignalWatch> signals_;
  JobInfo job_info_;
};

}  // namespace libhvd
