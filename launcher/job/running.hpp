// The second phase of an attempt: its ranks are started and run. A failure of one, or the loss of
// an agent, ends the attempt. So does the end of all. With --min-np, the attempt continues after
// the failure of ranks (membership.hpp).
//
// The attempt owns it. Loop thread only.
#pragma once

#include "job/attempt_phase.hpp"
#include "job/membership.hpp"
#include "job/rank_states.hpp"
#include "job/stalls.hpp"

#include <cstddef>
#include <optional>
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
  Result<void> on_member(const AgentState& agent, const Frame& frame) override;
  void on_resumed() override;
  bool may_end(const AgentState& agent) const override;
  void on_lost(const AgentState& agent, std::string why) override;

  // Null: the attempt ends when a rank is lost.
  const Membership* membership() const { return membership_ ? &*membership_ : nullptr; }

 private:
  Result<void> launch();
  void start_input();
  void on_member_exited(const RankReport& rank);
  void on_success();
  void on_early_exit();
  void on_exit_timeout();

  AttemptParts& attempt_;
  std::optional<Membership> membership_;
  bool have_started_ = false;  // all ranks of the start
  std::size_t succeeded_ = 0;  // ranks
  StallReporter stalls_;
  StateAnswers stall_answers_;
  Timer note_timer_;
  Timer exit_timer_;
  TimeoutTimer cause_timer_;
};

}  // namespace hvdrun
