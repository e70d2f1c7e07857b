// One attempt to run a job: its agents and ranks, from the first start to the last end. If anything
// fails, it stops them for the true reason. It receives every frame of its agents, and is in one of
// three phases (attempt_phase.hpp).
//
// The job owns it. Loop thread only. When run() returns, nothing of the attempt is left, except
// what the report lists. The destructor closes its descriptors.
#pragma once

#include "base/result.hpp"
#include "job/attempt_phase.hpp"
#include "job/exception_watch.hpp"
#include "job/hang_watch.hpp"
#include "job/quiet_watch.hpp"
#include "job/rank_states.hpp"
#include "job/restart.hpp"
#include "job/running.hpp"
#include "job/separate_runs.hpp"
#include "job/starting.hpp"
#include "job/stopping.hpp"
#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

struct AttemptEnd {
  EndKind kind = EndKind::succeeded;
  Report report;  // of this attempt alone
  LostHosts lost_hosts;
  std::string abandoned;  // a line about hosts where ranks may still run; "": there are none
};

class Attempt {
 public:
  Attempt(const JobParts& job, const JobIdentity& identity);

  // Starts the agents and runs the loop until the last has ended. Error: the agent on this host
  // could not be started.
  Result<AttemptEnd> run();

  // Stops the ranks with the grace period. Returns whether this is the cause: only the first is.
  bool stop(StopCause cause);
  // These are for an attempt that is being stopped: see Stopping.
  void shorten_stop(std::string_view key) {
    hang_.cut();
    stopping_->shorten(key);
  }
  std::string describe_stop(std::string_view key) const { return stopping_->describe(key); }

  // Returns how many ranks have not ended. `size`: of the job.
  std::size_t running(int size) const {
    return attempt_.table.ranks().empty() ? static_cast<std::size_t>(size)
                                          : attempt_.table.running().size();
  }

  // Returns "starting", "running" or "stopping".
  std::string_view phase_name() const;

  // For a look into the job.
  const AttemptParts& parts() const { return attempt_; }
  std::vector<RankState> members_among(std::vector<RankState> ranks) const;
  // Returns whether the rank was started later, and is in no generation yet.
  bool is_outside(int rank) const;
  // Returns what the rank is in a job that may lose some: see RankNow::role.
  std::string_view role_of(int rank) const;

  // SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH and those for the ranks, as the user sent them to hvdrun.
  void on_signal(int signal);

  // Finds out what the ranks do; see HangWatch::ask().
  void why(HangWatch::Done done) { hang_.ask(std::move(done)); }

  void on_output_relief() { attempt_.agents->return_credit(); }

 private:
  void run_ranks();

  // Frames of agents.
  struct Frames;
  void on_frame(AgentState& agent, const Frame& frame);
  Result<void> on_hello(AgentState& agent, const HelloMessage& hello);
  Result<void> on_ports(AgentState& agent, PortsMessage ports);
  void on_started(AgentState& agent, const StartedMessage& started);
  Result<void> on_output(AgentState& agent, const Frame& frame);
  Result<void> on_output_closed(AgentState& agent, const Frame& frame);
  void on_input_credit(AgentState& agent, const InputCredit& credit);
  Result<void> on_exited(AgentState& agent, const ExitedMessage& message);
  void on_aborted(AgentState& agent, const AbortedMessage& message);
  void on_answer(AgentState& agent, AnswerMessage message);
  void on_stalls(AgentState& agent, const StallsMessage& message);
  void on_progress(AgentState& agent, const ProgressMessage& message);
  void on_note(AgentState& agent, const std::string& text);
  void on_apart(AgentState& agent, const ApartMessage& message);
  void on_suspend(AgentState& agent);
  void on_paused(AgentState& agent);
  void on_step_signal(AgentState& agent, std::uint32_t signal);
  void pass_on_waiting();
  void on_failed(AgentState& agent, const FailedMessage& failed);
  void on_done(AgentState& agent, const DoneMessage& done);
  Result<void> on_pmix(AgentState& agent, const Frame& frame);
  Result<void> on_member(AgentState& agent, const Frame& frame);
  void on_agent_gone(AgentState& agent);

  std::chrono::milliseconds grace_for(const StopCause& cause) const;
  void send_user_signal(int signal);
  void consider_pausing();
  AttemptEnd finish();

  AttemptParts attempt_;
  Starting starting_;
  std::optional<Running> running_;
  std::optional<Stopping> stopping_;
  AttemptPhase* phase_ = &starting_;

  HangWatch hang_;
  QuietWatch quiet_watch_;
  std::vector<int> waiting_signals_;  // of steps; they may be for the whole job
  Timer signal_timer_;
  Question table_;  // of what the ranks do, for SIGQUIT
  ExceptionWatch exception_watch_;
  SeparateRuns separate_runs_;
  std::vector<std::string> leftovers_;
  std::vector<HostGpus> gpus_;
  std::vector<RankState> states_at_stop_;
  std::set<std::size_t> paused_;  // the hosts whose ranks are stopped, by host index
  bool pausing_ = false;  // the user has paused the job, and not all ranks are known to be stopped
  bool ranks_are_paused_ = false;  // or are about to be: agents were asked to pause them
};

}  // namespace hvdrun
