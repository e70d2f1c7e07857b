// What this process brings to a job: a plain value, made once by main().
#pragma once

#include "agent/guard.hpp"
#include "agent/host_setup.hpp"
#include "base/environment.hpp"
#include "base/resource_limits.hpp"
#include "channels/agent_channel.hpp"
#include "channels/srun_agents.hpp"
#include "channels/ssh.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "protocol/heartbeat.hpp"
#include "protocol/link.hpp"

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct JobContext {
  Environment environment;              // the caller's
  std::vector<ResourceLimit> limits;    // likewise
  std::string executable;               // the path of hvdrun, as it was when this process began
  sigset_t rank_signal_mask{};          // what ranks start with
  std::vector<pid_t> foreign_children;  // that this process already had: not the job's
};

// The agents of one try of a job, one a host, each with its link.
//
// Owned by an attempt, on the loop's thread. What agents say goes to the owner, frame by frame.

// Output bytes that an agent may have under way before the launcher has shown them.
inline constexpr std::uint32_t kOutputWindow = 2u << 20;

struct AgentState {
  std::size_t number = 0;      // as started
  std::size_t host_index = 0;  // in the placement, once there is one; it addresses frames
  Host host;                   // with what it offers, once it has greeted
  pid_t pid = 0;               // of the agent, on its host, once it has greeted
  std::string route;           // of its link, for people; likewise
  std::vector<int> ports;      // held for the ranks there, once it has been asked for them
  std::unique_ptr<AgentChannel> channel;
  std::unique_ptr<FrameSender> link;          // none before the channel is there
  std::optional<Silence> silence;             // of an agent on another host
  std::uint32_t credit_owed = kOutputWindow;  // for output that has been taken from it
  // What it has told.
  bool reached = false;  // anything at all
  bool greeted = false;
  bool started = false;
  bool paused = false;
  bool done = false;

  bool unresponsive = false;  // it gives no sign of life, though its host answers
  bool silent = false;        // it was given up since its host answered no more
  bool dismissed = false;     // no rank is for its host
  bool link_closed = false;   // it says no more
  bool gone = false;          // and what carried it has ended
  // When its host was last heard, of one whose host was given up.
  std::optional<Silence::Clock::time_point> host_heard;
  std::string failure;  // why it was lost, where that is known; without the host's name

  void send(FrameType type, std::string_view payload = {}) {
    if (link) link->send(type, static_cast<std::uint32_t>(host_index), payload);
  }
};

// What an attempt needs of its agents, however they are started.
class Agents {
 public:
  struct Events {
    std::function<void(AgentState&, const Frame&)> on_frame;
    std::function<void(AgentState&, std::string)> on_text;  // what its channel printed, by line
    // After `gone` was set. Nothing of this agent comes after it.
    std::function<void(AgentState&)> on_gone;
  };
  struct Start {
    std::vector<Host> hosts;
    std::vector<std::size_t> ranks;  // how many each will be asked to start; 0: not known
    HostSource from = HostSource::this_machine;
    AgentOptions options;             // of the one on this host, and what the others are told
    std::chrono::seconds timeout{0};  // after which one that cannot reach us gives up
  };

  explicit Agents(Events events) : events_(std::move(events)) {}
  virtual ~Agents() = default;
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  // Starts the agents of the hosts. Error: nothing can be started. What is wrong with single ones
  // comes by on_gone.
  virtual Result<void> start(Start start) = 0;

  // The job is being stopped: no further agent is started (those that were not are gone), and those
  // that have not greeted yet, in a login perhaps that never ends, are given up.
  virtual void stop_starting() = 0;

  // What an agent that has not started its ranks is waiting for; empty where it has, or has none.
  virtual std::string stage(const AgentState& agent) const = 0;

  // Ends an agent that cannot be used, and says why when it is gone.
  virtual void give_up(AgentState& agent, std::string failure) = 0;

  // Kills those that are not gone; their guards end what they leave. Returns their hosts.
  virtual std::vector<std::string> kill() = 0;

  // What is to be said when all have ended; empty: nothing.
  virtual std::string last_note() const = 0;

  // Waits for the guards, which end last of all; then nothing of the try is left, but for what it
  // returns: "pid 123 (python)". `spare`: children of this process that are not the job's.
  virtual std::vector<std::string> reap(const std::vector<pid_t>& spare) = 0;

  // The placement is made: from here on host indices are its. Agents of other hosts are dismissed.
  void assign(const Placement& placement);

  // By host index.
  std::size_t size() const { return by_host_.size(); }
  AgentState& on_host(std::size_t host_index) { return *by_host_[host_index]; }

  // Whether each has told so, those left out that are gone or dismissed.
  bool all(bool AgentState::*told) const;
  bool all_gone() const;
  const std::deque<AgentState>& every() const { return agents_; }

  void send_all(FrameType type, std::string_view payload = {});

  // Output that was shown or filed: the agent may send as much again, which it is told at once when
  // enough has come together, and otherwise by return_credit().
  void took_output(AgentState& agent, std::size_t bytes, bool may_return);
  void return_credit();

  // Hosts whose agent was lost: it is gone, and had not said that it was done.
  std::vector<std::string> lost_hosts() const;

 protected:
  AgentState& add_agent(const Host& host);

  Events events_;
  std::deque<AgentState> agents_;     // as started; their addresses stay
  std::vector<AgentState*> by_host_;  // by host index
  bool launched_ = false;             // the placement is made
};

// Real ones: on this host by fork, on those of a SLURM job by srun, on others by ssh, several at a
// time.
class HostAgents final : public Agents {
 public:
  // `caller`: the environment that hvdrun was called with. `executable`: hvdrun's own path.
  HostAgents(const EventLoop& loop, const RemoteSpec& remote, const Environment& caller,
             const std::string& executable, Events events);

  Result<void> start(Start start) override;
  void stop_starting() override;
  std::string stage(const AgentState& agent) const override;
  void give_up(AgentState& agent, std::string failure) override;
  std::vector<std::string> kill() override;
  std::string last_note() const override { return srun_ ? srun_->refused_note() : std::string(); }
  std::vector<std::string> reap(const std::vector<pid_t>& spare) override;

 private:
  void start_more();
  void start_by_ssh(AgentState& agent);
  void start_by_srun(std::chrono::seconds timeout);
  void on_srun_failure(const std::vector<SrunFailure>& troubles);
  void fail(AgentState& agent, std::string why);
  SshOptions ssh_options() const;
  void clean_up_others();
  AgentChannel::Events channel_events(AgentState& agent);
  void attach(AgentState& agent, LinkEnd end);
  void on_frame(AgentState& agent, const Frame& frame);
  void on_beat();
  void consider_gone(AgentState& agent);

  const EventLoop& loop_;
  const RemoteSpec& remote_;
  const Environment& caller_;
  AgentOptions options_;
  const std::string agent_path_;  // hvdrun on the other hosts
  // Of this process, after the agent here was forked: its ranks have the caller's limit.
  std::optional<RaisedDescriptorLimit> descriptors_;
  std::vector<std::size_t> ranks_;  // of agents_, as start() was told
  std::size_t next_ = 0;            // the first that was not started yet
  std::unique_ptr<SrunAgents> srun_;
  std::vector<AgentState*> by_srun_;  // in its order
  Timer beat_;
  HeartbeatSender heartbeats_;  // stops before the links go
};

}  // namespace hvdrun
