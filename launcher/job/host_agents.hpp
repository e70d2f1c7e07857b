// The agents of real hosts: on this host by fork, on the others by a starter. One that takes the
// place of a lost one on this host is executed. What an agent's life is after its start does not
// depend on how it was started.
#pragma once

#include "agent/descriptor_limit.hpp"
#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/system.hpp"
#include "channels/sending_agent.hpp"
#include "job/agent_starter.hpp"
#include "job/agents.hpp"
#include "model/job_spec.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class HostAgents final : public Agents {
 public:
  // `caller`: the environment that hvdrun was called with. `executable`: hvdrun's own path. The
  // references must outlive it.
  HostAgents(const EventLoop& loop, const RemoteSpec& remote, const Environment& caller,
             const std::string& executable, Events events);

  Result<void> start(Start start) override;
  bool start_again(AgentState& lost) override;
  std::string stage(const AgentState& agent) const override;
  void give_up(AgentState& agent, std::string why) override;
  std::vector<std::string> kill() override;
  std::string last_note() const override { return starter_ ? starter_->last_note() : ""; }
  std::vector<std::string> reap(const std::vector<pid_t>& spare) override;

 private:
  void cut_starting() override;
  AgentState& add_next(const AgentState& lost);
  void make_starter(const Start& start, std::vector<AgentState*> agents);
  void start_failed(AgentState& agent, std::string why);
  void clean_up_others();
  AgentChannel::Events channel_events(AgentState& agent);
  void attach(AgentState& agent, LinkEnd end);
  void on_frame(AgentState& agent, const Frame& frame);
  void beat_with_sign_of_life();
  void on_beat();
  void consider_gone(AgentState& agent);

  const EventLoop& loop_;
  const RemoteSpec& remote_;
  const Environment& caller_;
  AgentOptions options_;
  const std::string agent_path_;  // hvdrun on the other hosts
  // For hosts that have none there. Null if the user has named a path, or this hvdrun cannot be
  // sent.
  std::shared_ptr<Sendings> sendings_;
  // Raised after the agent on this host was forked, so that its ranks keep the caller's limit.
  std::optional<RaisedDescriptorLimit> descriptors_;
  std::vector<std::size_t> ranks_;         // of each agent, from start()
  std::unique_ptr<AgentStarter> starter_;  // null: there is no other host
  std::chrono::milliseconds beat_interval_{0};
  Silence::Clock::time_point beaten_;  // the last beat
  Timer beat_;                         // of a beat without a sign of life
  HeartbeatSender heartbeats_;         // declared last, because it must stop before the links end
};

}  // namespace hvdrun
