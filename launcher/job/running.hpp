// The second phase of an attempt: its ranks are started and run. A failure of one, or the loss of
// an agent, ends the attempt. So does the end of all. With --min-np, the attempt continues without
// ranks that fail and without the ranks of a lost agent (membership.hpp).
//
// The attempt owns it. Loop thread only.
#pragma once

#include "job/attempt_phase.hpp"
#include "job/membership.hpp"
#include "job/question.hpp"
#include "job/stalls.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class Running final : public AttemptPhase {
 public:
  explicit Running(AttemptParts& attempt);

  // Starts the ranks when every host holds the ports for its own.
  Result<void> begin();

  void leave() override;
  Result<void> on_ports(AgentState& agent, PortsMessage ports) override;
  Result<void> on_greeted(AgentState& agent) override;
  void on_started(const AgentState& agent) override;
  void on_exited(const RankReport& rank) override;
  void on_progress(std::size_t host_index, const ProgressMessage& message) override;
  void on_stalls(const StallsMessage& stalls) override;
  void on_start_timeout() override;
  Result<void> on_member(const AgentState& agent, const Frame& frame) override;
  void on_resumed() override;
  bool continues_without(AgentState& agent, const Error& error) override;
  bool may_end(const AgentState& agent) const override;
  void on_lost(AgentState& agent, std::string why) override;

  // Null: the attempt ends when a rank is lost.
  const Membership* membership() const { return membership_ ? &*membership_ : nullptr; }

 private:
  Result<void> launch();
  Result<void> launch_on(AgentState& agent);
  void begin_if_all_started();
  // Starts another agent in the place of one that was lost, if new ranks may run there.
  void consider_another_agent(AgentState& lost);
  void note_not_again(const AgentState& agent, const std::string& why) const;
  void forget_unstarted_agents();
  void start_input();
  void on_member_exited(const RankReport& rank);
  void on_success();
  // Takes the members of an agent that is lost, or cannot do its work, off the job.
  void lose_members(const AgentState& agent, const StopCause& cause, const std::string& how);
  void explain_stalls(const Answers& answers);
  void give_up_failed();
  void on_early_exit();
  void on_exit_timeout();

  AttemptParts& attempt_;
  std::optional<Membership> membership_;
  std::size_t succeeded_ = 0;  // ranks
  StallReporter stalls_;
  Question stall_question_;
  Timer note_timer_;
  Timer exit_timer_;
  TimeoutTimer cause_timer_;
  bool is_over_ = false;
  bool input_started_ = false;
  // An agent that is to end, because it cannot do its work.
  struct Failed {
    AgentState* agent = nullptr;
    bool had_ranks = false;  // it had started its ranks, perhaps none
  };
  std::vector<Failed> failed_;
  TimeoutTimer failed_timer_;
  std::optional<StopCause> late_loss_;  // of an agent, after ranks there had succeeded
};

}  // namespace hvdrun
