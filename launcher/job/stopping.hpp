// The last phase of an attempt: its ranks are ended for the first cause, with the grace period of
// the job, and then its agents.
//
// The attempt owns it. Loop thread only.
#pragma once

#include "job/attempt_phase.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class Stopping final : public AttemptPhase {
 public:
  // `has_ranks`: they have been started, or are about to be. `grace`: what they have until SIGKILL.
  Stopping(AttemptParts& attempt, StopCause cause, bool has_ranks, std::chrono::milliseconds grace);

  // Stops the ranks. The cause's first signal has half of the grace period, and is not sent if
  // there are no ranks yet.
  void begin();

  // Sends the next signal now: the kill signal after the cause's first signal, otherwise SIGKILL.
  // `key`: what the user does to send the one after it.
  void shorten(std::string_view key);

  // Returns which signal the ranks have got, and which follows: " with SIGINT, after 2.5 s with
  // SIGTERM; Ctrl-C once more: SIGTERM now".
  std::string describe(std::string_view key) const;

  bool may_end(const AgentState&) const override { return true; }
  void on_lost(AgentState& agent, std::string why) override;

  const StopCause& cause() const { return cause_; }
  // The host that was heard least of those lost before the stop.
  const std::optional<LostHost>& lost_host() const { return lost_host_; }
  bool agents_were_killed() const { return agents_killed_; }

 private:
  int kill_signal() const;
  void on_agents_hang();

  AttemptParts& attempt_;
  StopCause cause_;
  const bool has_ranks_;
  const std::chrono::milliseconds grace_;
  std::optional<LostHost> lost_host_;
  bool first_signal_runs_ = false;  // the ranks have got only the cause's first signal
  bool agents_killed_ = false;      // those that hung
  Timer first_signal_timer_;        // runs while the cause's first signal has its time
  TimeoutTimer agent_timer_;
};

}  // namespace hvdrun
