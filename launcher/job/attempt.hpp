// One attempt to run a job: its agents and ranks, from the first start to the last end. If anything
// fails, it stops them for the true reason.
//
// The job owns it. Loop thread only. When run() returns, nothing of the attempt is left, except
// what the report lists. The destructor closes its descriptors.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "job/agents.hpp"
#include "job/exception_watch.hpp"
#include "job/job_context.hpp"
#include "job/plan.hpp"
#include "job/pmix_router.hpp"
#include "job/rank_environment.hpp"
#include "job/rank_states.hpp"
#include "job/rank_table.hpp"
#include "job/restart.hpp"
#include "job/separate_runs.hpp"
#include "job/stalls.hpp"
#include "job/status_line.hpp"
#include "job/stdin_forwarder.hpp"
#include "job/terminal_session.hpp"
#include "job/unreached_hosts.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "model/report.hpp"
#include "output/output.hpp"
#include "output/user_terminal.hpp"
#include "protocol/messages.hpp"
#include "report/first_failure.hpp"

#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

using MakeAgents = std::function<std::unique_ptr<Agents>(Agents::Events)>;

// What all attempts of a job share. The job owns it and lends it to each.
struct JobParts {
  const JobSpec& spec;
  const JobContext& context;
  EventLoop& loop;
  Output& output;
  StdinForwarder& input;
  UserTerminal* terminal;  // null: there is none to take care of
  Plan& plan;              // becomes final when the hosts have answered
  const MakeAgents& make_agents;
};

struct AttemptEnd {
  EndKind kind = EndKind::succeeded;
  Report report;  // of this attempt alone
  LostHosts lost_hosts;
  std::string abandoned;  // a line about hosts where ranks may still run; "": there are none
};

class Attempt {
 public:
  Attempt(const JobParts& parts, const JobIdentity& identity);

  // Starts the agents and runs the loop until the last has ended. Error: the agent on this host
  // could not be started.
  Result<AttemptEnd> run();

  bool stopping() const { return cause_.has_value(); }
  // Stops the ranks with the grace period. Only the first cause is kept. The cause's first signal
  // has half of the grace period, and is not sent if there are no ranks yet.
  void stop(StopCause cause);
  // Sends the next signal now: the kill signal after the cause's first signal, otherwise SIGKILL.
  // `key`: what the user does to send the one after it.
  void shorten_stop(std::string_view key);
  // Returns which signal the ranks have got, and which follows: " with SIGINT, after 2.5 s with
  // SIGTERM; Ctrl-C once more: SIGTERM now".
  std::string describe_stop(std::string_view key) const;

  // SIGUSR1, SIGUSR2, SIGQUIT, SIGTSTP, SIGCONT and SIGWINCH, as the user sent them to hvdrun.
  void on_signal(int signal);

  void on_output_relief() { agents_->return_credit(); }

 private:
  // Start: agents, then the placement, then ranks.
  void consider_launching();
  Result<void> settle_plan();
  Result<void> begin_ranks();
  Result<void> ask_for_ports();
  Result<void> launch();
  void start_input();
  void on_terminal_gone();
  void on_unreached(UnreachableHost host);
  void give_up_starting();

  // Frames of agents.
  void on_frame(AgentState& agent, const Frame& frame);
  Result<void> handle(AgentState& agent, const Frame& frame);
  Result<void> on_hello(AgentState& agent, const HelloMessage& hello);
  Result<void> on_ports(AgentState& agent, PortsMessage ports);
  void on_started(AgentState& agent, const StartedMessage& started);
  Result<void> on_output(AgentState& agent, const Frame& frame);
  Result<void> on_exited(const ExitedMessage& message);
  void on_states(const StatesMessage& message);
  void on_stalls(const StallsMessage& message);
  void on_done(AgentState& agent, const DoneMessage& done);
  void on_agent_gone(AgentState& agent);
  void note_lost_host(const AgentState& agent, StopCause cause);

  // Timers.
  void on_start_timeout();
  void on_early_exit();
  void on_exit_timeout();
  void on_agents_hang();

  void judge(const RankReport& rank);
  void send_user_signal(int signal);
  void consider_pausing();
  int kill_signal() const { return parts_.spec.stop.signal.value_or(SIGTERM); }
  AttemptEnd finish();
  void ask_for_states(StatesPurpose purpose);
  void note(const std::string& text) { parts_.output.note(text); }
  const Placement& placement() const { return parts_.plan.placement; }

  const JobParts parts_;
  JobIdentity identity_;
  RankTable table_;
  std::unique_ptr<Agents> agents_;
  StatusLine status_line_;
  TerminalSession terminal_;
  std::optional<PmixRouter> router_;  // from the launch on
  TimeoutTimer start_timer_;
  Timer unreached_timer_;
  Timer note_timer_;
  Timer exit_timer_;
  TimeoutTimer cause_timer_;
  Timer first_signal_timer_;  // runs while the cause's first signal has its time
  TimeoutTimer agent_timer_;
  bool agents_killed_ = false;  // those that hung
  StateTable states_;
  StallReporter stalls_;
  StateAnswers stall_answers_;
  EventLoop::Clock::time_point begun_;
  std::optional<StopCause> cause_;
  std::optional<LostHost> lost_host_;
  std::vector<UnreachableHost> unreached_;
  std::vector<std::string> leftovers_;
  std::vector<HostGpus> gpus_;
  std::vector<RankState> states_at_stop_;
  SeparateRuns separate_runs_;
  ExceptionWatch exception_watch_;
  bool launched_ = false;
  bool kill_signal_follows_ = false;  // the ranks have got only the cause's first signal
  std::set<std::size_t> paused_;      // the hosts whose ranks are stopped, by host index
  bool pausing_ = false;  // the user has paused the job, and not all ranks are known to be stopped
};

}  // namespace hvdrun
