// Starts the agents of other hosts by ssh, as many at a time as descriptors allow.
//
// HostAgents owns it. Loop thread only.
#pragma once

#include "base/event_loop.hpp"
#include "channels/login_gate.hpp"
#include "channels/ssh_command.hpp"
#include "job/agent_starter.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

class SshStarter final : public AgentStarter {
 public:
  SshStarter(StarterContext context, std::vector<AgentState*> agents, Events events);

  std::size_t descriptors_to_start() const override;
  std::size_t steady_descriptors() const override;
  std::size_t descriptors_of_one_start() const override;
  void start() override;
  bool start_again(const AgentState& lost) override;
  void start_more() override;
  void on_all_greeted() override { standstill_tick_.cancel(); }
  void stop_starting() override { next_ = agents_.size(); }
  std::vector<bool> clean_up(const std::vector<AgentState*>& agents,
                             std::chrono::milliseconds timeout) override;

 private:
  void log_in(AgentState& agent);
  SshOptions ssh_options() const;
  void tick_standstill();

  const StarterContext context_;
  std::vector<AgentState*> agents_;
  const Events events_;
  std::size_t next_ = 0;         // the first agent that is not started yet
  std::size_t most_logins_ = 0;  // at a time
  const std::shared_ptr<LoginGate> gate_ = std::make_shared<LoginGate>();
  Timer standstill_tick_;  // while agents are started
};

}  // namespace hvdrun
