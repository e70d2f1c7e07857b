// Starts the agents of a SLURM job's hosts, all together: see srun_agents.hpp.
//
// HostAgents owns it. Loop thread only.
#pragma once

#include "channels/srun_agents.hpp"
#include "job/agent_starter.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace hvdrun {

class SrunStarter final : public AgentStarter {
 public:
  SrunStarter(StarterContext context, std::vector<AgentState*> agents, Events events);

  std::size_t descriptors_to_start() const override { return srun_descriptors(agents_.size()); }
  std::size_t steady_descriptors() const override { return 2 * agents_.size(); }
  void start() override;
  void on_all_greeted() override;
  void stop_starting() override;
  std::string waiting_for() const override;
  std::string last_note() const override;
  void reap() override;
  std::vector<bool> clean_up(const std::vector<AgentState*>& agents,
                             std::chrono::milliseconds timeout) override;

 private:
  void on_failures(const std::vector<SrunFailure>& failures);

  const StarterContext context_;
  const std::vector<AgentState*> agents_;  // in the order of srun_
  const Events events_;
  std::vector<AgentChannel::Events> channels_;  // by agent
  std::unique_ptr<SrunAgents> srun_;            // null if it could not be started
};

}  // namespace hvdrun
