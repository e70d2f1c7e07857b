#include "job/generations_world.hpp"

#include <optional>
#include <variant>

#include <fmt/format.h>

namespace hvdrun::model {
namespace {

using Phase = Generations::Phase;
using MemberState = Generations::Member::State;

}  // namespace

std::string describe(const Step& step) {
  static constexpr const char* kTexts[] = {"starts",
                                           "sees a failure",
                                           "comes, as agreed",
                                           "leaves",
                                           "exits",
                                           "gives up the wire-up",
                                           "dies",
                                           "dies, which is known before what it sent",
                                           "is given up",
                                           "reads",
                                           "is read by the launcher",
                                           "and the others agree on a reset",
                                           "and the others agree on the end",
                                           "and the others agree to start again",
                                           "or another one is too late",
                                           "waits for newcomers in vain"};
  return fmt::format("  member {} {}", step.member, kTexts[step.kind]);
}

// --- members -------------------------------------------------------------------------------------

bool World::sees_failure(std::size_t member) const {
  const auto& own = processes_[member];
  if (own.pushed > own.generation) return true;
  if (!scenario_->sees_failures) return false;
  for (std::size_t i = 0; i < size_; ++i) {
    if (i == member || !contains(own.list, i)) continue;
    const auto& other = processes_[i];
    if (other.state == Process::dead || other.state == Process::cut ||
        other.state == Process::coming)
      return true;
    if (other.generation != own.generation && other.state != Process::finished) return true;
  }
  return false;
}

// Whether a member in wire-up cannot connect to another one.
bool World::may_wire_up(std::size_t member) const {
  const auto& own = processes_[member];
  for (std::size_t i = 0; i < size_; ++i) {
    if (i == member || !contains(own.list, i)) continue;
    const auto& other = processes_[i];
    if (other.state == Process::dead || other.state == Process::cut) return false;
    if (other.state == Process::coming && other.generation >= own.generation) return false;
  }
  return true;
}

// Whether the members of its generation can complete a collective.
bool World::all_in(std::size_t member) const {
  const auto& own = processes_[member];
  if (own.state != Process::in) return false;
  for (std::size_t i = 0; i < size_; ++i)
    if (contains(own.list, i) &&
        (processes_[i].state != Process::in || processes_[i].generation != own.generation))
      return false;
  return true;
}

// Whether the others have got as far in its generation as to take part in the last exchange.
bool World::all_took_part(std::size_t member) const {
  const auto& own = processes_[member];
  for (std::size_t i = 0; i < size_; ++i) {
    const auto& other = processes_[i];
    if (!contains(own.list, i) || other.gone() || other.generation > own.generation) continue;
    if (other.generation < own.generation) return false;
    if (other.state == Process::wiring && other.exchange < kLastExchange) return false;
  }
  return true;
}

void World::come(std::size_t member, ComeReason why) {
  auto& own = processes_[member];
  own.state = Process::coming;
  own.exchange = 0;
  own.pushed = 0;
  own.knows_newcomers = false;
  own.list = 0;
  Message message;
  message.kind = Message::come;
  message.generation = own.generation;
  message.value = static_cast<std::uint8_t>(why);
  up_[member].push(message);
  drop_without_effect(member);
}

// Drops what has no effect whenever it is read. That makes the search much shorter.
void World::drop_without_effect(std::size_t member) {
  auto& down = down_[member];
  const auto is_coming = processes_[member].state == Process::coming;
  while (is_coming && down.size > 0 && down.messages[0].kind != Message::go) down.pop();
  if (launcher_.state().members[member].state == MemberState::lost) up_[member].size = 0;
}

void World::end(std::size_t member, Process::State state) {
  processes_[member] = {state, processes_[member].generation, 0, 0, false, processes_[member].list};
  down_[member].size = 0;
}

void World::read(std::size_t member) {
  auto& own = processes_[member];
  const auto message = down_[member].pop();
  Message part;
  part.kind = Message::part;
  switch (message.kind) {
    case Message::over:
      if (own.state == Process::wiring && message.generation > own.generation)
        come(member, ComeReason::failed);
      else if (own.state == Process::in)
        own.pushed = std::max(own.pushed, message.generation);
      return;
    case Message::go:
      if (own.state != Process::coming) return fail("`go` comes to a member that has not come");
      if (message.generation <= own.generation) fail("a member's generation does not grow");
      own = {Process::wiring, message.generation, scenario_->first_exchange, 0,
             false,           message.list};
      break;
    case Message::parts:
      if (own.state != Process::wiring || message.generation != own.generation ||
          message.value != own.exchange)
        return;
      if (own.exchange == kLastExchange) {
        if (!all_took_part(member)) fail("a member opens a generation before all have wired up");
        own.exchange = 0;
        own.state = Process::in;
        return;
      }
      ++own.exchange;
      break;
    case Message::updated:
      if (own.state == Process::in) own.knows_newcomers = true;
      return;
    default:
      return;
  }
  part.generation = own.generation;
  part.value = own.exchange;
  up_[member].push(part);
}

// --- the launcher --------------------------------------------------------------------------------

void World::send(std::size_t member, const Message& message) {
  const auto& process = processes_[member];
  if (process.gone() || process.state == Process::left) return;
  down_[member].push(message);
  drop_without_effect(member);
}

void World::carry_out(const Actions& actions) {
  for (const auto& action : actions) {
    Message message;
    message.generation = static_cast<std::uint8_t>(launcher_.state().generation);
    if (const auto* const over = std::get_if<action::Over>(&action)) {
      if (scenario_->fault == Fault::says_no_over) continue;
      message.kind = Message::over;
      for (const auto member : over->to) send(member, message);
    } else if (const auto* const go = std::get_if<action::Go>(&action)) {
      message.kind = Message::go;
      for (std::size_t i = go->go.ranks.size(); i-- > 0;)
        message.list = message.list << 4 | (go->go.ranks[i].member + 1);
      for (const auto& rank : go->go.ranks) send(rank.member, message);
    } else if (const auto* const parts = std::get_if<action::Parts>(&action)) {
      message.kind = Message::parts;
      message.value = static_cast<std::uint8_t>(parts->parts.exchange);
      for (const auto member : parts->to) send(member, message);
    } else if (const auto* const updated = std::get_if<action::Updated>(&action)) {
      if (scenario_->fault == Fault::says_no_updated) continue;
      message.kind = Message::updated;
      for (const auto member : updated->to) send(member, message);
    } else if (const auto* const ended = std::get_if<action::EndMember>(&action)) {
      if (!processes_[ended->member].gone()) end(ended->member, Process::cut);
      if (ended->why == action::EndMember::Why::violation) fail("a member is ended for nothing");
    } else if (const auto* const removed = std::get_if<action::Removed>(&action)) {
      if (!processes_[removed->member].gone()) end(removed->member, Process::cut);
    } else if (const auto* const stop = std::get_if<action::CannotContinue>(&action)) {
      ended_ = true;
      const bool may_end =
          stop->why == action::CannotContinue::Why::all_lost
              ? std::all_of(launcher_.state().list.begin(), launcher_.state().list.end(),
                            [this](auto i) { return processes_[i].gone(); })
              : stop->why == action::CannotContinue::Why::too_few;
      if (!may_end) fail("the job ends although members live");
    }
  }
}

void World::launcher_loses(std::size_t member) {
  const auto phase = launcher_.state().phase;
  if (scenario_->fault == Fault::forgets_losses) return;
  if (scenario_->fault == Fault::forgets_losses_before_come && phase == Phase::gathering &&
      up_[member].size > 0)
    return;
  carry_out(launcher_.lost(static_cast<std::uint32_t>(member), "died"));
  if (scenario_->fault == Fault::keeps_those_who_came && phase == Phase::wiring)
    for (const auto other : std::vector(launcher_.state().list)) {
      MemberCome come;
      come.why = ComeReason::failed;
      if (launcher_.state().phase == Phase::gathering) carry_out(launcher_.came(other, come));
    }
}

void World::launcher_reads(std::size_t member) {
  const auto number = static_cast<std::uint32_t>(member);
  const auto message = up_[member].pop();
  switch (message.kind) {
    case Message::come: {
      MemberCome come;
      come.last_generation = message.generation;
      come.why = static_cast<ComeReason>(message.value);
      carry_out(launcher_.came(number, come));
      if (scenario_->fault == Fault::does_not_wait && come.why == ComeReason::failed)
        for (const auto other : std::vector(launcher_.state().list))
          if (launcher_.state().phase == Phase::gathering && !launcher_.state().members[other].came)
            carry_out(launcher_.lost(other, "is slow"));
      return;
    }
    case Message::part: {
      const auto list = launcher_.state().list;
      carry_out(launcher_.took_part(number, message.generation, message.value, ""));
      if (scenario_->fault == Fault::does_not_wait_for_parts && message.value == kLastExchange)
        for (const auto other : list)
          if (other != number)
            carry_out(launcher_.took_part(other, message.generation, message.value, ""));
      return;
    }
    case Message::left:
      return carry_out(launcher_.left(number));
    case Message::finished:
      return carry_out(launcher_.finished(number));
    default:
      return launcher_loses(member);
  }
}

// --- what must hold -----------------------------------------------------------------------------

void World::check() {
  const auto& state = launcher_.state();
  for (std::size_t i = 0; i < size_; ++i) drop_without_effect(i);
  if (state.generation > kMostGenerations) fail("the generations do not end");
  for (std::size_t i = 0; i < size_; ++i) {
    const auto& own = processes_[i];
    const auto& member = state.members[i];
    if (member.state == MemberState::lost && !own.gone()) fail("a living member is left out");
    if (own.state == Process::coming && own.generation > 0 && restarts_ == scenario_->restarts &&
        (state.phase == Phase::wiring || state.phase == Phase::open) && !member.rank &&
        member.state == MemberState::running)
      fail("a living member is left out");
    if (own.state != Process::in && own.state != Process::wiring) continue;
    if (!contains(own.list, i)) fail("a member is in a generation without itself");
    if (own.generation > state.generation) fail("a member is ahead of the launcher");
    for (std::size_t j = 0; j < i; ++j)
      if ((processes_[j].state == Process::in || processes_[j].state == Process::wiring) &&
          processes_[j].generation == own.generation && processes_[j].list != own.list)
        fail("a generation has two lists");
  }
}

std::string World::why_stuck() const {
  if (ended_) return {};
  const auto& state = launcher_.state();
  std::optional<std::size_t> first;
  std::size_t living = 0;
  bool newcomer_waits = false;
  for (std::size_t i = 0; i < size_; ++i) {
    const auto& own = processes_[i];
    if (own.gone() || own.state == Process::left) continue;
    if (!state.members[i].rank) {
      newcomer_waits = true;
      continue;
    }
    ++living;
    if (!first) first = i;
    if (own.state == Process::in && own.generation == processes_[*first].generation &&
        own.list == processes_[*first].list)
      continue;
    if (launcher_.waits_for_newcomers()) continue;  // checked below
    return own.state == Process::in ? "living members are in different generations"
                                    : fmt::format("member {} waits for ever", i);
  }
  if (launcher_.waits_for_newcomers())
    return living < scenario_->min && !state.finish_began ? "" : "the launcher waits for no reason";
  if (living > 0 && state.phase != Phase::open) return "the launcher has not opened a generation";
  if (newcomer_waits && living > 0 && living < scenario_->max && !state.finish_began)
    return "a newcomer waits for ever";
  return {};
}

std::uint64_t World::hash() const {
  std::uint64_t hash = 0;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  const auto bytes = [](auto... values) {
    std::uint64_t packed = 0;
    ((packed = packed << 8 | static_cast<std::uint8_t>(values)), ...);
    return packed;
  };
  mix(bytes(deaths_, cuts_, resets_, ends_, restarts_, ended_));
  mix(std::uint64_t{reset_in_} << 32 | std::uint64_t{end_in_} << 16 | restart_in_);
  const auto& state = launcher_.state();
  mix(bytes(state.phase, state.generation, state.exchange, state.exchanges, state.announced,
            state.awaits_left, state.finish_began, state.failed_wirings));
  for (const auto member : state.list) mix(member);
  for (std::size_t i = 0; i < size_; ++i) {
    const auto& own = processes_[i];
    const auto& member = state.members[i];
    mix(bytes(own.state, own.generation, own.exchange, own.pushed, own.knows_newcomers,
              member.state, member.came, member.rank.has_value()));
    mix(own.list | std::uint64_t{member.joined} << 32 |
        std::uint64_t{member.part.has_value()} << 40 | std::uint64_t{up_[i].size} << 48 |
        std::uint64_t{down_[i].size} << 56);
    for (const auto* const channel : {&up_[i], &down_[i]})
      for (std::size_t at = 0; at < channel->size; ++at) {
        const auto& message = channel->messages[at];
        mix(bytes(message.kind, message.generation, message.value) << 32 | message.list);
      }
  }
  return hash * 0x9e3779b97f4a7c15u;
}

}  // namespace hvdrun::model
