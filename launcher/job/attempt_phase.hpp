// The phases of an attempt. Starting: its agents are started and greet, and the ranks are placed.
// Running: the ranks are started and run. Stopping: they are ended for the first cause. An attempt
// is in one phase at a time. What means the same in every phase, such as output, it does itself.
//
// The attempt owns the phases and what they share. Loop thread only.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "job/agents.hpp"
#include "job/job_context.hpp"
#include "job/plan.hpp"
#include "job/pmix_router.hpp"
#include "job/question.hpp"
#include "job/rank_environment.hpp"
#include "job/rank_table.hpp"
#include "job/status_line.hpp"
#include "job/stdin_forwarder.hpp"
#include "job/terminal_session.hpp"
#include "job/unreached_hosts.hpp"
#include "model/job_spec.hpp"
#include "output/output.hpp"
#include "output/user_terminal.hpp"
#include "protocol/messages.hpp"
#include "report/first_failure.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class HangWatch;

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
  // The report has this note.
  std::function<void(const std::string& text)> on_report_note = {};
};

// What the phases of an attempt share.
struct AttemptParts {
  const JobParts job;
  const EventLoop::Clock::time_point begun;
  JobIdentity identity;
  RankTable table;  // of no ranks before they are placed
  std::unique_ptr<Agents> agents;
  std::unique_ptr<Questions> questions;  // to the agents
  StatusLine status_line;
  TerminalSession terminal;
  std::optional<PmixRouter> router;  // from the launch on
  TimeoutTimer start_timer;          // from the first agent's start to the last rank's

  // Changes of the phase. `stop` does nothing if the attempt is stopping already.
  std::function<void(StopCause)> stop;
  std::function<void()> ranks_are_placed;

  HangWatch* hang = nullptr;  // the attempt's

  // Stops the attempt because its ranks have not all started in time. `unreached`: hosts that are
  // known to be the reason. Those whose agents still wait for something are added.
  void stop_for_start_timeout(std::vector<UnreachableHost> unreached) const;

  void note(const std::string& text) const { job.output.note(text); }
  // Notes a problem that the report has, too.
  void note_problem(const std::string& text) const;
  const Placement& placement() const { return job.plan.placement; }
};

// Returns the cause of a stop that an agent's error is.
StopCause agent_failure(const Error& error);

// After a rank has failed because another one left: that one is about to end, and is to blame.
inline constexpr std::chrono::milliseconds kPeersEnd{1000};

// An agent ends its ranks within the grace and its own rounds of SIGKILL. One that has not ended
// this much later hangs (in PMIx, in the kernel), and is killed.
inline constexpr std::chrono::milliseconds kAgentPatience{20000};

// Returns "2.5 s".
std::string seconds_text(std::chrono::milliseconds time);

// What happens to an attempt, as far as it depends on the phase. By default nothing follows.
class AttemptPhase {
 public:
  virtual ~AttemptPhase() = default;

  // Ends the phase: its timers no longer run.
  virtual void leave() {}

  virtual Result<void> on_greeted(AgentState& /*agent*/) { return {}; }
  virtual Result<void> on_ports(AgentState& /*agent*/, PortsMessage /*ports*/) { return {}; }
  virtual void on_started(const AgentState& /*agent*/) {}  // its ranks
  virtual void on_exited(const RankReport& /*rank*/) {}
  virtual void on_progress(std::size_t /*host_index*/, const ProgressMessage& /*message*/) {}
  virtual void on_stalls(const StallsMessage& /*stalls*/) {}
  // A frame of a member, see membership.hpp.
  virtual Result<void> on_member(const AgentState& /*agent*/, const Frame& /*frame*/) { return {}; }
  virtual void on_resumed() {}  // the job, which was paused
  // Not all ranks have started in time.
  virtual void on_start_timeout() {}

  // An agent reports that it cannot do its work. Returns false if the attempt ends for it.
  virtual bool continues_without(AgentState& /*agent*/, const Error& /*error*/) { return false; }

  // Returns whether an agent that has reported its end may have ended.
  virtual bool may_end(const AgentState& agent) const = 0;
  // An agent was lost. `why`: as people read it; empty if it is not known.
  virtual void on_lost(AgentState& agent, std::string why) = 0;
};

// Returns the cause of a stop that the loss of an agent is.
StopCause lost_agent(const AgentState& agent, const std::string& why);

}  // namespace hvdrun
