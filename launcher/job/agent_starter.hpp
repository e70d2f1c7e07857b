// Starts the agents of the other hosts, in one of two ways: by ssh, each by a login of its own
// (ssh_starter.hpp), or by srun, all together (srun_starter.hpp). Only here does it make a
// difference which.
//
// HostAgents owns it. Loop thread only. A failure to start one agent is an event.
#pragma once

#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_channel.hpp"
#include "channels/sending_agent.hpp"
#include "job/agents.hpp"
#include "model/job_spec.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

// What the launcher opens after the agents' start: files of output and reports.
inline constexpr std::size_t kDescriptorsForLater = 4;

// What a starter needs. The references outlive it.
struct StarterContext {
  const EventLoop& loop;
  const RemoteSpec& remote;
  const Environment& caller;  // the environment that hvdrun was called with
  std::string agent_path;     // hvdrun on the other hosts
  std::string job_id;         // hvdrun's own
  // For hosts that have no hvdrun. Null if the user has named a path, or this hvdrun cannot be
  // sent.
  std::shared_ptr<Sendings> sendings;
  std::chrono::seconds timeout;  // after it, an agent that cannot reach the launcher gives up
  bool survives_hosts = false;   // the job continues when hosts are lost
};

class AgentStarter {
 public:
  struct Events {
    std::function<void(AgentState&)> on_begin;  // its start begins
    std::function<AgentChannel::Events(AgentState&)> channel_events;
    std::function<void(AgentState&, std::string why)> on_failure;  // it cannot be started
    // Adds the agent that takes the place of a lost one.
    std::function<AgentState&(const AgentState& lost)> add_successor;
  };

  virtual ~AgentStarter() = default;

  // Returns how many descriptors the launcher needs for these agents, beside those of `steady()`.
  virtual std::size_t descriptors_to_start() const = 0;
  // Returns how many it needs as long as they live.
  virtual std::size_t steady_descriptors() const = 0;
  // Returns how many must be free for the start of one more.
  virtual std::size_t descriptors_of_one_start() const { return 0; }

  // Starts the agents, or the first of them.
  virtual void start() = 0;
  // Starts a successor of a lost agent while the job runs. Returns false, and adds none, if this
  // way of starting cannot do that.
  virtual bool start_again(const AgentState& /*lost*/) { return false; }
  // Starts more: another one has greeted or is gone.
  virtual void start_more() {}
  // All agents have greeted.
  virtual void on_all_greeted() {}
  // Starts no more of them.
  virtual void stop_starting() = 0;

  // Returns what an agent is waiting for that has no link; "" if its channel knows that.
  virtual std::string waiting_for() const { return {}; }
  // Returns a line to print when all have ended; "" if there is none.
  virtual std::string last_note() const { return {}; }

  // Waits for the end of what has started the agents. Blocks the loop.
  virtual void reap() {}
  // Removes what is left on hosts whose agents and guards were killed together. Blocks the loop for
  // about `timeout`. Returns, for each of the agents, whether its host has confirmed that.
  virtual std::vector<bool> clean_up(const std::vector<AgentState*>& agents,
                                     std::chrono::milliseconds timeout) = 0;
};

}  // namespace hvdrun
