// The agents of one attempt, one for each host, each with its link, however they are started. The
// attempt owns them. Loop thread only. What agents report goes to the owner, frame by frame; the
// loss of an agent is reported by on_gone.
#pragma once

#include "agent/agent_options.hpp"
#include "channels/agent_channel.hpp"
#include "job/agent_life.hpp"
#include "job/restart.hpp"
#include "job/unreached_hosts.hpp"
#include "model/host_facts.hpp"
#include "model/placement.hpp"
#include "model/report.hpp"
#include "protocol/heartbeat.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Bytes of output that an agent may send before the launcher has shown them.
inline constexpr std::uint32_t kOutputWindow = 2u << 20;

struct AgentState {
  std::size_t number = 0;          // in the order of starts
  std::size_t host_index = 0;      // in the placement, once there is one; it addresses frames
  Host host;                       // with what it offers, after the agent has greeted
  pid_t pid = 0;                   // of the agent, on its host, after it has greeted
  std::string route;               // of its link, for people, after it has greeted
  std::string pmix_error;          // why its host has no PMIx, after it has greeted; "": it has
  std::optional<HostFacts> facts;  // that it has reported
  std::vector<std::string> interfaces;  // those of --network-interface; empty: no choice
  std::vector<int> ports;               // held for the ranks there, after it was asked for them
  std::unique_ptr<AgentChannel> channel;
  std::unique_ptr<FrameSender> link;          // null before the channel is connected
  std::optional<Silence> silence;             // after it has greeted
  std::uint32_t credit_owed = kOutputWindow;  // for output that was taken from it
  std::map<int, int> step_signals;            // how often it has reported a scheduler's signal
  AgentLife life;
  std::optional<std::size_t> predecessor;  // the lost agent of its host, whose place it takes
  bool unresponsive = false;               // it gives no sign of life, though its host answers
  bool dismissed = false;                  // no rank is placed on its host

  void send(FrameType type, std::string_view payload = {}) {
    if (link) link->send(type, static_cast<std::uint32_t>(host_index), payload);
  }
};

class Agents {
 public:
  struct Events {
    std::function<void(AgentState&, const Frame&)> on_frame;
    std::function<void(AgentState&, std::string)> on_text;  // a line that its channel printed
    // Called when the agent is gone. No event of this agent comes later.
    std::function<void(AgentState&)> on_gone;
  };
  struct Start {
    std::vector<Host> hosts;
    std::vector<std::size_t> ranks;  // how many ranks each will be asked to start; 0: not known
    StartedBy started_by = StartedBy::ssh;
    AgentOptions options;             // of the agent on this host; the others get them in a message
    std::chrono::seconds timeout{0};  // after it, an agent that cannot reach the launcher gives up
    bool survives_hosts = false;      // the job continues when hosts are lost
  };

  explicit Agents(Events events) : events_(std::move(events)) {}
  virtual ~Agents() = default;
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  // Starts the agents of the hosts. Error: no agent can be started. The failure of a single one is
  // reported by on_gone.
  virtual Result<void> start(Start start) = 0;

  // Starts another agent on the host of one that was lost there, after its ranks had started. It
  // has the host's index at once, and is one of every() too. If its start fails, that is reported
  // by on_gone, perhaps before this returns. Returns false if agents of this kind cannot be started
  // again.
  virtual bool start_again(AgentState& /*lost*/) { return false; }

  // Take note of what an agent has said: its first message, that its ranks have started, its last.
  void greeted(AgentState& agent, const HelloMessage& hello);
  void started(AgentState& agent) { advance(agent, AgentPhase::running); }
  void done(AgentState& agent) { advance(agent, AgentPhase::done); }

  // Gives up the agents that have not greeted, because the job is being stopped. Their hosts are
  // not lost, unless the job is stopped because they took `too_long`. An agent on this host that is
  // stopped (SIGSTOP) is continued, so that it can end its ranks.
  void stop_starting(bool too_long);

  // Returns what an agent that has not started its ranks is waiting for; empty if it has started
  // them or has none.
  virtual std::string stage(const AgentState& agent) const = 0;

  // Ends an agent that cannot be used. `why` is the reason when it is gone.
  virtual void give_up(AgentState& agent, std::string why) = 0;

  // Kills the agents that are not gone; their guards end what they leave. Returns their hosts.
  virtual std::vector<std::string> kill() = 0;

  // Gives up the agents that are not gone after kill(): they are frozen, or hang in the kernel.
  void abandon();

  // Returns a line to print when all have ended; empty if there is none.
  virtual std::string last_note() const = 0;

  // Waits for the guards, which end last of all. Then nothing of the attempt is left, except the
  // processes that it returns: "pid 123 (python)". `spare`: children of this process that are not
  // the job's.
  virtual std::vector<std::string> reap(const std::vector<pid_t>& spare) = 0;

  // Takes the final placement. From here on host indices are those of the placement. Agents of
  // other hosts are dismissed.
  void assign(const Placement& placement);

  // By host index.
  std::size_t size() const { return by_host_.size(); }
  AgentState& on_host(std::size_t host_index) { return *by_host_[host_index]; }

  // Returns whether all agents of the start that are neither gone nor dismissed have come so far.
  bool all(AgentPhase phase) const;
  bool all_gone() const;
  const std::list<AgentState>& every() const { return agents_; }
  // Returns the hosts whose agents have started their ranks, and have a link, by host index.
  std::set<std::size_t> that_can_answer() const;

  // Returns what the hosts have, as far as their agents have reported it.
  std::vector<HostHardware> hardware() const;

  void send_all(FrameType type, std::string_view payload = {});

  // Sends a user's signal to the ranks of all hosts.
  void send_signal(int signal);

  // Takes a signal that a scheduler has sent to an agent's step. Returns whether it is the first
  // report of it: each agent of the step reports it.
  bool is_new_in_step(AgentState& from, int signal);

  // Sends such a signal to the ranks on this host, which are in no step, unless they have just had
  // it as a user's signal. The scheduler itself sends it to the ranks of the step.
  void pass_on_here(int signal);

  // Takes note that output was shown or written, so that the agent may send as much again. The
  // agent gets the credit when enough has accumulated, or by return_credit().
  void took_output(AgentState& agent, std::size_t bytes, bool may_return);
  void return_credit();

  // Returns the hosts on which ranks may still run: their agents were lost, and nothing is known of
  // what they have left. Call it after reap().
  std::vector<std::string> abandoned_hosts() const;

  // Returns the hosts whose agents were lost and which cannot be reached any more. Call it after
  // reap(), which tries to reach them.
  LostHosts lost_hosts() const;

  // Returns the other hosts whose agents have not reported their end.
  std::vector<UnconfirmedHost> unconfirmed_hosts() const;

 protected:
  // Starts no further agent (those that were not started are gone), and ends those that have not
  // greeted, perhaps in a login that never ends.
  virtual void cut_starting() = 0;

  AgentState& add_agent(const Host& host);
  AgentState& add_successor(const AgentState& lost);

  // The writers of AgentState::life.
  static void begin(AgentState& agent) { advance(agent, AgentPhase::starting); }
  // Takes note of a new link, over which nothing has come.
  static void begin_link(AgentState& agent);
  // Returns whether this is the first that comes over its link.
  static bool reach(AgentState& agent);
  // Sets the reason of its loss, unless one is known.
  static void explain_loss(AgentState& agent, const std::string& why);
  static Loss& loss_of(AgentState& agent) { return agent.life.loss_; }
  static void close_link(AgentState& agent);
  // Takes note that the agent is gone, without an event: it was never begun.
  static void drop(AgentState& agent) { agent.life.end_ = AgentLife::End::gone; }
  // Reports that the agent is gone.
  void end(AgentState& agent);

  Events events_;
  // In the order of starts. It may get more while it is read.
  std::list<AgentState> agents_;
  std::vector<AgentState*> by_host_;  // by host index
  bool launched_ = false;             // assign() was called

 private:
  static void advance(AgentState& agent, AgentPhase phase);

  std::map<int, Silence::Clock::time_point> sent_signals_;  // when a user's signal was sent last
  std::map<int, int> step_signals_;  // how often a scheduler has sent a signal to steps
};

}  // namespace hvdrun
