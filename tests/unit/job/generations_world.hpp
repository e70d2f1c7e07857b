// The world of the search in generations_model_test.cpp: the real Generations value, and members
// and channels that are simulated. Each member has a channel to the launcher and one back, first
// in, first out. Members start, see failures, read what the launcher sends, agree on resets and on
// the end, die, and are cut off. Values; a step makes a changed copy.
#pragma once

#include "job/generations.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun::model {

constexpr std::size_t kMost = 4;  // members and newcomers
constexpr std::uint8_t kMostGenerations = 12;

// A fault of the launcher.
enum class Fault {
  none,
  keeps_those_who_came,  // to the last generation as if they had come to the next
  does_not_wait,         // for a slow member
  forgets_losses,
  forgets_losses_before_come,  // what a dead member has sent still has an effect
  says_no_over,
  does_not_wait_for_parts,
  says_no_updated,
};

// What can happen, and how often.
struct Scenario {
  std::uint8_t members = 3;
  std::uint8_t newcomers = 0;
  std::uint8_t deaths = 0;
  std::uint8_t cuts = 0;      // hosts that are given up, although they live
  std::uint8_t resets = 0;    // that members agree on
  std::uint8_t ends = 0;      // of the program, in all members
  std::uint8_t restarts = 0;  // hvd_shutdown and hvd_init in all members
  bool deadlines = false;     // each may pass at once
  std::uint8_t min = 1;
  std::uint8_t max = kMost;
  bool sees_failures = true;  // members notice by themselves that another one is gone
  Fault fault = Fault::none;
};

// The members by rank, four bits each: the member's number plus one.
using List = std::uint32_t;

inline bool contains(List list, std::size_t member) {
  for (; list != 0; list >>= 4)
    if ((list & 15) == member + 1) return true;
  return false;
}

struct Message {
  enum Kind : std::uint8_t { come, part, left, finished, lost, over, go, parts, updated };
  Kind kind = come;
  std::uint8_t generation = 0;
  std::uint8_t value = 0;  // the exchange, or why it comes
  List list = 0;           // go
};

// A channel from or to a member.
struct Channel {
  static constexpr std::uint8_t kRoom = 7;
  std::uint8_t size = 0;
  std::array<Message, kRoom> messages;

  void push(const Message& message) {
    if (size == kRoom) throw std::length_error("a channel of the model is too short");
    messages[size++] = message;
  }
  void push_front(const Message& message) {
    push(message);
    std::rotate(messages.begin(), messages.begin() + size - 1, messages.begin() + size);
  }
  Message pop() {
    const auto first = messages[0];
    std::copy(messages.begin() + 1, messages.begin() + size, messages.begin());
    --size;
    return first;
  }
};

struct Process {
  enum State : std::uint8_t { outside, coming, wiring, in, left, finished, dead, cut };
  State state = outside;
  std::uint8_t generation = 0;
  std::uint8_t exchange = 0;  // whose parts it waits for
  std::uint8_t pushed = 0;    // the generation that `over` announced
  bool knows_newcomers = false;
  List list = 0;

  bool gone() const { return state == dead || state == cut || state == finished; }
};

// What has happened in a step, for people.
struct Step {
  enum Kind : std::uint8_t {
    starts,
    fails,
    comes,
    leaves,
    exits,
    gives_up,
    dies,
    dies_silently,
    is_cut,
    reads,
    launcher_reads,
    agree_reset,
    agree_end,
    agree_restart,
    deadline,
    newcomer_deadline
  };
  std::uint32_t before = 0;  // the number of the state before
  Kind kind = starts;
  std::uint8_t member = 0;
};

std::string describe(const Step& step);

// A state of the launcher, the members and the channels. A step changes a copy.
class World {
 public:
  explicit World(const Scenario& scenario)
      : scenario_(&scenario),
        size_(scenario.members + scenario.newcomers),
        deaths_(scenario.deaths),
        cuts_(scenario.cuts),
        resets_(scenario.resets),
        ends_(scenario.ends),
        restarts_(scenario.restarts),
        launcher_({scenario.min, scenario.max}, places(scenario.members)) {
    for (std::uint8_t i = scenario.members; i < size_; ++i) launcher_.add(i, 0);
  }

  const std::string& violation() const { return violation_; }
  std::uint64_t hash() const;

  // Calls visit(World, Step, bool must) with each state that can follow. `must`: the step happens
  // at last, unless another one does.
  template <class Visit>
  void for_each_step(const Visit& visit) const;

  // Returns why nothing should end here, if no step must happen; "" if it may.
  std::string why_stuck() const;
  void check();

 private:
  static std::vector<MemberPlace> places(std::uint8_t members) {
    std::vector<MemberPlace> places;
    for (std::uint32_t i = 0; i < members; ++i) places.push_back({i, i, 0});
    return places;
  }

  bool has(std::uint16_t generations, const Process& process) const {
    return ((generations >> process.generation) & 1) != 0;
  }
  bool sees_failure(std::size_t member) const;
  bool all_in(std::size_t member) const;
  bool may_wire_up(std::size_t member) const;
  bool all_took_part(std::size_t member) const;
  void come(std::size_t member, ComeReason why);
  void drop_without_effect(std::size_t member);
  void read(std::size_t member);
  void launcher_reads(std::size_t member);
  void launcher_loses(std::size_t member);
  void carry_out(const Actions& actions);
  void send(std::size_t member, const Message& message);
  void end(std::size_t member, Process::State state);
  void fail(const std::string& text) {
    if (violation_.empty()) violation_ = text;
  }

  const Scenario* scenario_;
  std::uint8_t size_;
  std::uint8_t deaths_;
  std::uint8_t cuts_;
  std::uint8_t resets_;
  std::uint8_t ends_;
  std::uint8_t restarts_;
  // In which generations the members have agreed, as bits.
  std::uint16_t reset_in_ = 0;
  std::uint16_t end_in_ = 0;
  std::uint16_t restart_in_ = 0;
  bool ended_ = false;  // the launcher cannot continue
  std::array<Process, kMost> processes_;
  std::array<Channel, kMost> up_;
  std::array<Channel, kMost> down_;
  Generations launcher_;
  std::string violation_;
};

template <class Visit>
void World::for_each_step(const Visit& visit) const {
  if (ended_) return;
  const auto step = [&](Step::Kind kind, std::size_t member, bool must, const auto& change) {
    World next = *this;
    change(next);
    next.check();
    visit(std::move(next), Step{0, kind, static_cast<std::uint8_t>(member)}, must);
  };
  for (std::size_t i = 0; i < size_; ++i) {
    const auto& own = processes_[i];
    const auto comes = [&](Step::Kind kind, ComeReason why) {
      step(kind, i, true, [&](World& next) { next.come(i, why); });
    };
    const auto says = [&](World& next, Process::State state, Message::Kind kind) {
      next.processes_[i].state = state;
      next.up_[i].push({kind, own.generation, 0, 0});
    };
    if (own.state == Process::outside) comes(Step::starts, ComeReason::start);
    if (own.state == Process::in && sees_failure(i)) comes(Step::fails, ComeReason::failed);
    if (own.state == Process::in && has(reset_in_, own)) comes(Step::comes, ComeReason::asked);
    if (own.state == Process::in && (has(end_in_, own) || has(restart_in_, own)))
      step(Step::leaves, i, true, [&](World& next) {
        next.end(i, Process::left);
        says(next, Process::left, Message::left);
      });
    if (own.state == Process::left && has(restart_in_, own)) comes(Step::starts, ComeReason::start);
    if (own.state == Process::left && has(end_in_, own))
      step(Step::exits, i, true,
           [&](World& next) { says(next, Process::finished, Message::finished); });
    if (own.state == Process::wiring && !may_wire_up(i) && scenario_->sees_failures)
      comes(Step::gives_up, ComeReason::failed);
    if (!own.gone() && deaths_ > 0) {
      const auto dies = [&](World& next) {
        --next.deaths_;
        next.end(i, Process::dead);
      };
      const Message lost{Message::lost, 0, 0, 0};
      step(Step::dies, i, false, [&](World& next) { dies(next), next.up_[i].push(lost); });
      if (up_[i].size > 0)
        step(Step::dies_silently, i, false,
             [&](World& next) { dies(next), next.up_[i].push_front(lost); });
    }
    if (!own.gone() && cuts_ > 0)
      step(Step::is_cut, i, false, [&](World& next) {
        --next.cuts_;
        next.end(i, Process::cut);
        next.up_[i].size = 0;
        next.carry_out(next.launcher_.host_given_up(static_cast<std::uint32_t>(i), "was lost"));
      });
    if (down_[i].size > 0) step(Step::reads, i, true, [&](World& next) { next.read(i); });
    if (up_[i].size > 0)
      step(Step::launcher_reads, i, true, [&](World& next) { next.launcher_reads(i); });
  }
  const auto agree = [&](Step::Kind kind, std::size_t member, bool must, std::uint16_t World::*in,
                         std::uint8_t World::*budget) {
    step(kind, member, must, [&](World& next) {
      next.*in = static_cast<std::uint16_t>(next.*in | 1 << processes_[member].generation);
      if (budget != nullptr) --(next.*budget);
    });
  };
  for (std::size_t i = 0; i < size_; ++i) {
    const auto& own = processes_[i];
    const auto agreed = static_cast<std::uint16_t>(reset_in_ | end_in_ | restart_in_);
    if (!all_in(i) || has(agreed, own) || (own.list & 15) != i + 1) continue;  // rank 0 says it
    const bool is_known = std::any_of(processes_.begin(), processes_.end(), [&](const auto& one) {
      return one.knows_newcomers && one.generation == own.generation;
    });
    if (is_known) agree(Step::agree_reset, i, true, &World::reset_in_, nullptr);
    if (resets_ > 0 && !is_known)
      agree(Step::agree_reset, i, false, &World::reset_in_, &World::resets_);
    if (ends_ > 0) agree(Step::agree_end, i, false, &World::end_in_, &World::ends_);
    if (restarts_ > 0) agree(Step::agree_restart, i, false, &World::restart_in_, &World::restarts_);
  }
  if (scenario_->deadlines && launcher_.waits_for_members())
    step(Step::deadline, 0, false, [&](World& next) {
      next.carry_out(next.launcher_.members_deadline_passed("did not come"));
    });
  if (scenario_->deadlines && launcher_.waits_for_newcomers())
    step(Step::newcomer_deadline, 0, false,
         [&](World& next) { next.carry_out(next.launcher_.newcomers_deadline_passed()); });
}

}  // namespace hvdrun::model
