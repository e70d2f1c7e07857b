// Who is a member of an attempt that continues when ranks are lost (--min-np). Passes what members
// do, and what becomes of them, to a Generations value, and carries out what that decides.
//
// Running owns it. Loop thread only. A member's number is its rank at the start of the job, or the
// next number if it is started later: so hvdrun's lines and files name it, whatever its rank in a
// generation.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "job/attempt_phase.hpp"
#include "job/generation_history.hpp"
#include "job/generations.hpp"
#include "job/new_ranks.hpp"
#include "model/generation.hpp"
#include "protocol/frame.hpp"
#include "protocol/messages.hpp"
#include "report/generations_end.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

class Membership {
 public:
  explicit Membership(AttemptParts& attempt);

  // The ranks of the start run.
  void begin();
  // Its timers no longer run.
  void leave();

  // Takes a frame of a member. Error: the agent violates the protocol.
  Result<void> take(const AgentState& agent, const Frame& frame);

  // Returns whether this member is lost already: hvdrun has ended it, or has lost it before.
  bool is_lost(int rank) const;

  // Returns whether this member was in a generation, or is one of the start.
  bool has_joined(int rank) const;

  // Takes a rank's end: it has finished, or is lost.
  void ended(const RankReport& rank);

  // A host's members are lost, because its agent is lost or cannot do its work. `reason`: "the
  // agent on n2 was lost: killed by SIGKILL". `last_heard`: in seconds since the attempt began.
  // `how`: of each member: "was lost with the agent: killed by SIGKILL".
  void lose_host(std::size_t host, const std::string& reason, double last_heard,
                 const std::string& how);

  // The agent of this host was killed, and with it its ranks, before lose_host(). Returns whether
  // another agent may start new ones there: ranks of other hosts continue.
  bool wants_another_agent(std::size_t host);
  // Agents have come or gone, so that new ranks may be started, or may not come.
  void agents_changed() { watch_newcomers(); }

  // Returns whether a member of this host has exited with 0.
  bool has_finished_on(std::size_t host) const;

  // The user continues the job, which was paused.
  void resume();

  // Changes what all ranks do to what the members do, with their numbers as members: those that are
  // lost are left out.
  std::vector<RankState> members_among(std::vector<RankState> ranks) const;

  // Returns what became of the generations until now.
  GenerationsReport report() const;

 private:
  double now() const;
  void carry_out(const Actions& actions);
  void send(const Action& action);
  void end_member(const action::EndMember& action);
  std::vector<Repair::Lost> named(const std::vector<action::Lost>& losses) const;
  void note_opened();
  // Limits the time in which a rank may still call hvd_init, after this loss: "rank 1 on n1 was
  // lost (exit code 1)".
  void await_init(const std::string& loss);
  void on_no_init();
  void note_lost_newcomers(const std::vector<std::size_t>& lost, const std::string& how) const;
  void lost_after_leaving(std::uint32_t member, const std::string& how);
  void stop(action::CannotContinue::Why why);
  StopCause too_few() const;
  bool stopped_at_reset_limit(const action::Go& go) const;
  void end_newcomers();
  void watch_newcomers();
  // Limits the time that members have to come. `anew`: from now on.
  void watch_deadline(bool anew);
  void on_deadline();
  // Limits the time that the last processes have to end, if all of them belong to lost members.
  void watch_ends();
  void give_up_last();

  AttemptParts& attempt_;
  Generations generations_;
  GenerationHistory history_;
  NewRanks new_ranks_;
  std::vector<std::uint32_t> opened_;  // the last generation that was open: its members, by rank
  std::vector<action::Lost> losses_;   // since then
  bool one_has_reformed_ = false;
  bool one_has_come_ = false;            // a rank has called hvd_init
  bool last_failed_for_a_peer_ = false;  // the last member that has ended
  TimeoutTimer init_deadline_;           // of the first hvd_init, after a loss
  TimeoutTimer deadline_;                // of members that the others wait for
  TimeoutTimer newcomers_deadline_;      // of newcomers that the others wait for
  std::set<int> ending_;                 // members that hvdrun ends, and that may still run
  Timer end_timer_;                      // of their agents, when all others have ended
  Timer stop_timer_;      // the job cannot continue, and the rank to blame is about to end
  StopCause stop_cause_;  // then
};

}  // namespace hvdrun
