// The first phase of an attempt: agents are started and greet, and the ranks are placed when all
// hosts have answered. A host that cannot be reached ends the attempt.
//
// The attempt owns it. Loop thread only.
#pragma once

#include "job/attempt_phase.hpp"

#include <string>
#include <vector>

namespace hvdrun {

class Starting final : public AttemptPhase {
 public:
  explicit Starting(AttemptParts& attempt);

  // Error: the agent on this host could not be started, or files of ranks cannot be created.
  Result<void> begin();

  void leave() override { unreached_timer_.cancel(); }
  Result<void> on_greeted(AgentState& agent) override;
  void on_start_timeout() override;
  bool may_end(const AgentState&) const override { return false; }
  void on_lost(AgentState& agent, std::string why) override;

 private:
  Result<void> place();
  Result<void> begin_ranks();
  void give_up();

  AttemptParts& attempt_;
  std::vector<UnreachableHost> unreached_;
  Timer unreached_timer_;
};

}  // namespace hvdrun
