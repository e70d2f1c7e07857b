// Which processes are the members of a job that continues when ranks are lost (--min-np), one
// generation after the other.
//
// A value without descriptors or clock, for its owner's thread. The launcher decides alone who is a
// member: it alone has a link to each agent, and links keep their order. Its owner passes what it
// learns, in the order in which it learns it, and carries out the actions that are returned.
// Nothing fails: what a lost member has sent, and what comes too late, has no effect.
//
//   gathering(g) ─ all needed members came: Go ─► wiring(g) ─ last exchange: Opened ─► open(g)
//        ▲                                          │                                   │
//        └─ g+1: a member was lost or comes again: Over; or all have agreed to come ────┘
//
// Needed are the members of the last generation that are neither lost nor have left. A living
// member is never left out, except if its deadline passes or its host cannot be reached: then it is
// ended.
#pragma once

#include "common/agent_messages.hpp"
#include "job/generation_numbers.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hvdrun {

// What the owner of a Generations value does, or notes.
namespace action {

// A member of the last generation is lost. It may have left, and failed afterwards.
struct Lost {
  std::uint32_t member = 0;
  std::string text;
};

// Sends `over` to members.
struct Over {
  GenerationOver over;
  std::vector<std::uint32_t> to;
};

// Sends `go` to the members that it lists. `commits` and `step`: of each, in the order of ranks.
struct Go {
  GenerationGo go;
  std::vector<std::uint64_t> commits;
  std::vector<std::uint64_t> steps;
};

// Sends `parts` to members.
struct Parts {
  GenerationParts parts;
  std::vector<std::uint32_t> to;
};

// All members have what they need to open their sessions of this generation.
struct Opened {
  std::uint32_t generation = 0;
};

// Sends `updated` to members.
struct Updated {
  std::uint32_t bits = 0;
  std::vector<std::uint32_t> to;
};

// Sends `removed` to a newcomer that the job no longer needs.
struct Removed {
  std::uint32_t member = 0;
  std::string text;
};

// Ends a member's process: it is lost already.
struct EndMember {
  enum class Why { late, unreachable, violation };
  std::uint32_t member = 0;
  Why why = Why::late;
  std::string text;
};

// Stops the job: there will be no further generation.
struct CannotContinue {
  enum class Why {
    all_lost,      // or have left
    too_few,       // fewer than the minimum, and no newcomers in time
    wiring_fails,  // several times in a row, and no host is to blame
  };
  Why why = Why::all_lost;
};

}  // namespace action

using Action =
    std::variant<action::Lost, action::Over, action::Go, action::Parts, action::Opened,
                 action::Updated, action::Removed, action::EndMember, action::CannotContinue>;
using Actions = std::vector<Action>;

class Generations {
 public:
  enum class Phase : std::uint8_t { gathering, wiring, open, ended };

  struct Limits {
    std::size_t min = 1;  // no generation is smaller, unless a member has left or finished
    std::size_t max = std::numeric_limits<std::size_t>::max();  // newcomers make none larger
    // Whether newcomers can be started. If not, and none lives, too few members end the job at
    // once.
    bool grows = true;
  };

  struct Member {
    enum class State : std::uint8_t {
      running,
      left,      // it called hvd_shutdown
      finished,  // it exited with 0
      lost,
    };
    std::uint32_t host = 0;
    std::uint32_t slot = 0;
    State state = State::running;
    std::optional<std::uint32_t> rank = {};  // in the last generation; nullopt: not in it
    bool joined = false;                     // it was in a generation, or is in the first list
    bool came = false;                       // and waits for `go`
    MemberCome last_come = {};
    std::optional<std::string> part = {};  // in the present exchange
  };

  // The members of generation 1 are numbered as their ranks.
  Generations(const Limits& limits, const std::vector<MemberPlace>& first);

  // A newcomer's process is being started. Returns its number as a member. The slots of a host's
  // living members differ.
  std::uint32_t add(std::uint32_t host, std::uint32_t slot);

  // Returns the numbers that a newcomer is likely to have, by its place. Its local rank is its
  // slot.
  MemberNumbers planned(std::uint32_t host, std::uint32_t slot) const;

  Actions came(std::uint32_t member, const MemberCome& come);
  // A member's part in an exchange of the wire-up.
  Actions took_part(std::uint32_t member, std::uint32_t generation, std::uint32_t exchange,
                    std::string_view blob);
  Actions left(std::uint32_t member);
  Actions finished(std::uint32_t member);
  // It ended in another way. `text`: "was killed by SIGKILL".
  Actions lost(std::uint32_t member, const std::string& text);
  Actions host_given_up(std::uint32_t host, const std::string& text);
  // Its process has lost the connection to its agent without having left, and has not ended.
  Actions disconnected(std::uint32_t member);

  // Whether a time limit applies. The owner begins it anew with each Over, Go and Parts, and calls
  // when it has passed.
  bool waits_for_members() const;
  bool waits_for_newcomers() const;
  // Ends the members that have not come, or whose part is missing. `text`: "did not come within
  // 120 s". Members that have not got `over` get it now.
  Actions members_deadline_passed(const std::string& text);
  Actions newcomers_deadline_passed();

  // All there is to know. The tests compare it, too.
  struct State {
    Limits limits;
    Phase phase = Phase::gathering;
    std::uint32_t generation = 1;      // the one that is gathered, wired up or open
    std::vector<Member> members;       // by number
    std::vector<std::uint32_t> list;   // the members of the last generation, in the order of ranks
    std::uint32_t exchange = 0;        // the present one; 0: no member has taken part yet
    std::uint32_t exchanges = 0;       // the last one that is complete
    bool announced = false;            // the one that is gathered, to all that are needed
    bool awaits_left = false;          // members that have left come again (hvd_init), or end
    bool finish_began = false;         // a member has finished
    std::uint32_t failed_wirings = 0;  // in a row until the last one, and no member was lost
  };
  const State& state() const { return state_; }

 private:
  bool lives(std::uint32_t member) const;
  bool listed(std::uint32_t member) const { return state_.members[member].rank.has_value(); }
  bool needed(std::uint32_t member) const;
  std::vector<std::uint32_t> needed_members() const;
  std::vector<std::uint32_t> ready_newcomers() const;
  std::size_t least_size() const;  // of the next generation
  bool may_grow() const;

  void gather();
  void announce(OverKind kind, std::vector<LostMember> lost, Actions& actions);
  void lose(const std::vector<std::uint32_t>& members, const std::string& text, Actions& actions);
  void end_and_lose(const std::vector<std::uint32_t>& members, action::EndMember::Why why,
                    const std::string& text, Actions& actions);
  void end_job(action::CannotContinue::Why why, Actions& actions);
  void settle(Actions& actions);
  void settle_gathering(Actions& actions);
  bool leave_out_unreachable_host(Actions& actions);
  void go(const std::vector<std::uint32_t>& survivors, Actions& actions);
  void begin_generation(const std::vector<NumberedMember>& ranks, Actions& actions);
  void settle_wiring(Actions& actions);
  void settle_open(Actions& actions);
  void open(Actions& actions);
  void announce_newcomers(Actions& actions) const;
  void dismiss_newcomers(Actions& actions);

  State state_;
};

}  // namespace hvdrun
