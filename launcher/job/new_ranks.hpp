// Starts processes while a job runs that continues when ranks are lost: spares at the beginning,
// and new ones in the slots of those that have ended (--spares, --replace).
//
// Membership owns it. Loop thread only. A process that cannot be started has failed.
#pragma once

#include "base/event_loop.hpp"
#include "job/attempt_phase.hpp"
#include "job/generations.hpp"
#include "job/slots.hpp"
#include "model/report.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace hvdrun {

class NewRanks {
 public:
  // Both must outlive it.
  NewRanks(AttemptParts& attempt, Generations& generations);

  // The ranks of the start run: starts the spares.
  void begin();
  // Starts processes in the slots that are free, if the job replaces ranks.
  void start();
  // The members know that newcomers are ready. Warns if they do not ask for them.
  void announced();
  // Takes the members of a generation, and how often they have committed.
  void note(const action::Go& go);
  // Takes the end of a member's process. Says if its slot is left out.
  void ended(std::uint32_t member, const RankReport& rank);
  // A member's process was lost with its agent: frees its slot. How often it has committed becomes
  // clear in the next generation.
  void lost_with_agent(std::uint32_t member);
  // Returns whether new ranks would be started on this host.
  bool want(std::size_t host) const;

  // The job ends: warns of no rank any more.
  void leave() {
    late_.clear();
    unasked_.cancel();
  }

  // Returns whether a process may still come that is not in the job.
  bool may_come() const;

 private:
  // Leaves out those of hosts without an agent. `soon`: not those whose next agent is starting.
  std::vector<Slots::Slot> usable(std::vector<Slots::Slot> slots, bool soon) const;
  void say_left_out(Slots::LeftOut what, const Generations::Member& member) const;
  void start_all();
  // Warns of a process that has not come to hvd_init. It is not ended: it may be reading its data.
  void warn_of_late(std::uint32_t member);
  // Warns, once in the job, of newcomers that wait for a program that does not ask for them.
  void warn_of_unasked();

  AttemptParts& attempt_;
  Generations& generations_;
  Slots slots_;
  std::map<std::uint32_t, std::uint64_t>
      commits_at_first_;  // of members, in their first generation
  // The slots of processes that were lost with their agents, and how often the job had committed
  // when they came.
  struct Uncertain {
    std::size_t host = 0;
    int slot = 0;
    std::uint64_t commits = 0;
  };
  std::vector<Uncertain> uncertain_;
  std::uint64_t commits_ = 0;                   // of the last generation's root
  std::map<std::uint32_t, TimeoutTimer> late_;  // by member
  TimeoutTimer unasked_;                        // of the first newcomer that is ready
  bool has_warned_of_unasked_ = false;
};

}  // namespace hvdrun
