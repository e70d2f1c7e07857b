// One try of a job: its agents and ranks, from the first one's start to the last one's end, stopped
// for the true reason when anything fails.
//
// Owned by the job, on its loop's thread. When run() has returned, nothing of the try is left, or
// it is in the report; when the attempt is destroyed, none of its descriptors either.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "job/agents.hpp"
#include "job/launch.hpp"
#include "job/plan.hpp"
#include "job/pmix_router.hpp"
#include "job/progress.hpp"
#include "job/rank_table.hpp"
#include "job/restart.hpp"
#include "job/stalls.hpp"
#include "job/stdin_forwarder.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "model/report.hpp"
#include "output/output.hpp"
#include "protocol/messages.hpp"
#include "report/first_failure.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

using MakeAgents = std::function<std::unique_ptr<Agents>(Agents::Events)>;

// What lasts over the tries of a job, and is lent to each.
struct JobParts {
  const JobSpec& spec;
  const JobContext& context;
  EventLoop& loop;
  Output& output;
  StdinForwarder& input;
  Plan& plan;  // becomes final when the hosts have been asked
  const MakeAgents& make_agents;
};

struct AttemptEnd {
  EndKind kind = EndKind::succeeded;
  Report report;                        // of this try alone
  std::vector<std::string> lost_hosts;  // whose agents were lost
};

class Attempt {
 public:
  Attempt(const JobParts& parts, const JobIdentity& identity);

  // Starts the agents and runs the loop until the last has ended. Error: the agent on this host
  // could not be started.
  Result<AttemptEnd> run();

  bool stopping() const { return cause_.has_value(); }
  void stop(StopCause cause);  // the first cause counts
  void kill();                 // at once, without grace

  // SIGUSR1, SIGUSR2, SIGQUIT, SIGTSTP and SIGCONT, as the user sent them to hvdrun.
  void on_signal(int signal);

  void on_output_relief() { agents_->return_credit(); }

 private:
  // Beginning: agents, then the placement, then ranks.
  void consider_launching();
  Result<void> settle_plan();
  Result<void> begin_ranks();
  void ask_for_ports();
  void launch();
  void start_input();
  void on_unreached(const AgentState& agent);
  void give_up_starting();

  // What agents say.
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

  // What the clock says.
  void on_start_timeout();
  void on_early_exit();
  void on_exit_timeout();
  void on_agents_hang();

  void judge(const RankReport& rank);
  void send_user_signal(int signal);
  void consider_pausing();
  AttemptEnd finish();
  void ask_for_states(StatesPurpose purpose);
  void note(const std::string& text) { parts_.output.note("hvdrun: " + text); }
  const Placement& placement() const { return parts_.plan.placement; }

  const JobParts parts_;
  JobIdentity identity_;
  RankTable table_;
  std::unique_ptr<Agents> agents_;
  StartProgress progress_;
  std::optional<Exchange> exchange_;  // from the launch on
  TimeoutTimer start_timer_;
  Timer unreached_timer_;
  Timer note_timer_;
  Timer exit_timer_;
  TimeoutTimer cause_timer_;
  TimeoutTimer agent_timer_;
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
  std::size_t hosts_of_strangers_ = 0;  // whose ranks have had nothing to do with any other
  bool rank_drove_all_gpus_ = false;
  bool launched_ = false;
  bool pausing_ = false;  // the user said so, and not all ranks are known to be stopped
};

}  // namespace hvdrun
