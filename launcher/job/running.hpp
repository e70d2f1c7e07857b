// The second phase of an attempt: its ranks are started and run. A failure of one, or the loss of
// an agent, ends the attempt. So does the end of all.
//
// The attempt owns it. Loop thread only.
#pragma once

#include "job/attempt_phase.hpp"
#include "job/rank_states.hpp"
#include "job/stalls.hpp"

#include <cstddef>
#include <string>

namespace hvdrun {

class Running final : public AttemptPhase {
 public:
  explicit Running(AttemptParts& attempt);

  // Starts the ranks when every host holds the ports for its own.
  Result<void> begin();

  void leave() override;
  Result<void> on_ports(AgentState& agent, PortsMessage ports) override;
  void on_started() override;
  void on_exited(const RankReport& rank) override;
  void on_progress(std::size_t host_index, const ProgressMessage& message) override;
  void on_stalls(const StallsMessage& stalls) override;
  void on_stall_states(const StatesMessage& message) override;
  void on_start_timeout() override;
  bool may_end(const AgentState& agent) const override;
  void on_lost(const AgentState& agent, std::string why) override;

 private:
  Result<void> launch();
  void start_input();
  void on_early_exit();
  void on_exit_timeout();

  AttemptParts& attempt_;
  StallReporter stalls_;
  StateAnswers stall_answers_;
  Timer note_timer_;
  Timer exit_timer_;
  TimeoutTimer cause_timer_;
};

}  // namespace hvdrun
