#include "job/generations.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using MemberState = Generations::Member::State;

constexpr std::uint32_t kFailedWiringsToBlame = 2;  // then a host that others accuse is left out
constexpr std::uint32_t kMostFailedWirings = 5;

}  // namespace

Generations::Generations(const Limits& limits, const std::vector<MemberPlace>& first) {
  state_.limits = limits;
  for (const auto& place : first) {
    const auto number = add(place.host, place.slot);
    state_.members[number].rank = number;
    state_.members[number].joined = true;
    state_.list.push_back(number);
  }
}

std::uint32_t Generations::add(std::uint32_t host, std::uint32_t slot) {
  Member member;
  member.host = host;
  member.slot = slot;
  state_.members.push_back(member);
  return static_cast<std::uint32_t>(state_.members.size() - 1);
}

// Returns whether what the member sends has an effect.
bool Generations::lives(std::uint32_t member) const {
  if (state_.phase == Phase::ended || member >= state_.members.size()) return false;
  const auto state = state_.members[member].state;
  return state == MemberState::running || state == MemberState::left;
}

// Returns whether the next generation waits for this member of the last one to come.
bool Generations::needed(std::uint32_t member) const {
  const auto state = state_.members[member].state;
  return state == MemberState::running || (state == MemberState::left && state_.awaits_left);
}

std::vector<std::uint32_t> Generations::needed_members() const {
  std::vector<std::uint32_t> members;
  for (const auto member : state_.list)
    if (needed(member)) members.push_back(member);
  return members;
}

std::vector<std::uint32_t> Generations::ready_newcomers() const {
  std::vector<std::uint32_t> newcomers;
  if (state_.finish_began) return newcomers;
  for (std::uint32_t member = 0; member < state_.members.size(); ++member)
    if (!listed(member) && state_.members[member].came) newcomers.push_back(member);
  return newcomers;
}

// A program that has come to its end on one rank is at its end on the others, too.
std::size_t Generations::least_size() const {
  const bool one_has_left = std::any_of(
      state_.list.begin(), state_.list.end(),
      [this](std::uint32_t number) { return state_.members[number].state == MemberState::left; });
  return state_.finish_began || one_has_left ? 1 : state_.limits.min;
}

bool Generations::may_grow() const {
  if (state_.finish_began) return false;
  if (state_.limits.grows) return true;
  for (std::uint32_t member = 0; member < state_.members.size(); ++member)
    if (!listed(member) && state_.members[member].state == MemberState::running) return true;
  return false;
}

MemberNumbers Generations::planned(std::uint32_t host, std::uint32_t slot) const {
  std::vector<Survivor> survivors;
  for (const auto number : state_.list) {
    const auto& member = state_.members[number];
    if (lives(number)) survivors.push_back({{number, member.host, member.slot}, *member.rank});
  }
  const auto number = static_cast<std::uint32_t>(state_.members.size());
  if (survivors.empty()) survivors.push_back({{number + 1, host, slot + 1}, 0});
  const auto numbered = number_members(survivors, {{number, host, slot}});
  GenerationGo go;
  std::uint32_t rank = 0;
  for (const auto& one : numbered) {
    if (one.place.member == number) rank = static_cast<std::uint32_t>(go.ranks.size());
    go.ranks.push_back({one.place.member, one.place.host, one.local_rank, {}});
  }
  auto numbers = numbers_in(go, rank);
  const auto most = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(state_.limits.max, 2, std::numeric_limits<std::uint32_t>::max()));
  numbers.size = std::min(numbers.size, most);
  numbers.rank = std::min(numbers.rank, numbers.size - 1);
  numbers.local_rank = slot;
  numbers.local_size = std::max(numbers.local_size, slot + 1);
  return numbers;
}

// --- what members do -----------------------------------------------------------------------------

Actions Generations::came(std::uint32_t number, const MemberCome& come) {
  const bool is_alone = state_.phase == Phase::ended && number < state_.members.size() &&
                        state_.members[number].state == MemberState::left;
  if (is_alone) return {action::Removed{number, "the other ranks have finished"}};
  if (!lives(number)) return {};
  Actions actions;
  auto& member = state_.members[number];
  const bool again = std::exchange(member.state, MemberState::running) == MemberState::left;
  const auto phase = state_.phase;
  if (listed(number) && phase != Phase::gathering) {
    gather();
    member.came = true;
    // Members agree in the last exchange that one could not connect, after which it is open.
    if (phase == Phase::wiring || come.failure == common::SeenFailure::unconnected)
      ++state_.failed_wirings;
    else
      state_.failed_wirings = 0;
    if (phase == Phase::open && again)
      state_.awaits_left = true;
    else if (phase != Phase::open || come.why != ComeReason::asked)
      announce(OverKind::failed, {}, actions);
  }
  member.came = true;
  member.last_come = come;
  if (state_.finish_began && !listed(number)) dismiss_newcomers(actions);
  if (!listed(number) && phase == Phase::open) announce_newcomers(actions);
  settle(actions);
  return actions;
}

Actions Generations::took_part(std::uint32_t number, std::uint32_t generation,
                               std::uint32_t exchange, std::string_view blob) {
  if (!lives(number) || !listed(number)) return {};
  if (state_.phase != Phase::wiring || generation != state_.generation) return {};
  Actions actions;
  auto& member = state_.members[number];
  // The first exchange is 1, or 2 if the members have come with what they give to the first.
  const bool next = state_.exchange != 0    ? exchange == state_.exchange
                    : state_.exchanges != 0 ? exchange == state_.exchanges + 1
                                            : exchange > 0 && exchange <= kLastExchange;
  if (!next || member.part) {
    end_and_lose({number}, action::EndMember::Why::violation,
                 fmt::format("took part in exchange {} of generation {} when it should not have",
                             exchange, generation),
                 actions);
    return actions;
  }
  state_.exchange = exchange;
  member.part = blob;
  settle(actions);
  return actions;
}

Actions Generations::left(std::uint32_t number) {
  if (!lives(number)) return {};
  Actions actions;
  auto& member = state_.members[number];
  member.state = MemberState::left;
  member.came = false;
  if (state_.phase == Phase::wiring && listed(number)) announce(OverKind::failed, {}, actions);
  settle(actions);
  return actions;
}

Actions Generations::finished(std::uint32_t number) {
  if (!lives(number)) return {};
  Actions actions;
  auto& member = state_.members[number];
  const auto before = std::exchange(member.state, MemberState::finished);
  member.came = false;
  if (!member.joined) return actions;  // a newcomer whose program needed no other rank
  state_.finish_began = true;
  dismiss_newcomers(actions);
  const bool expected = before == MemberState::left || state_.phase == Phase::gathering;
  if (listed(number) && !expected)
    announce(OverKind::lost, {{number, "exited without hvd_shutdown"}}, actions);
  settle(actions);
  return actions;
}

// --- what becomes of members ---------------------------------------------------------------------

Actions Generations::lost(std::uint32_t member, const std::string& text) {
  Actions actions;
  if (lives(member)) lose({member}, text, actions);
  return actions;
}

Actions Generations::host_given_up(std::uint32_t host, const std::string& text) {
  Actions actions;
  std::vector<std::uint32_t> members;
  for (std::uint32_t member = 0; member < state_.members.size(); ++member)
    if (state_.members[member].host == host && lives(member)) members.push_back(member);
  lose(members, text, actions);
  return actions;
}

Actions Generations::disconnected(std::uint32_t member) {
  Actions actions;
  if (lives(member) && state_.members[member].state == MemberState::running)
    end_and_lose({member}, action::EndMember::Why::violation,
                 "lost its connection to its agent without hvd_shutdown", actions);
  return actions;
}

// Takes living members off. Those that had left, and newcomers, end no generation.
void Generations::lose(const std::vector<std::uint32_t>& members, const std::string& text,
                       Actions& actions) {
  std::vector<LostMember> losses;
  for (const auto number : members) {
    auto& member = state_.members[number];
    if (listed(number)) actions.emplace_back(action::Lost{number, text});
    if (member.state == MemberState::running && listed(number)) losses.push_back({number, text});
    member.state = MemberState::lost;
    member.came = false;
    member.part.reset();
  }
  if (!losses.empty()) {
    state_.failed_wirings = 0;
    announce(OverKind::lost, std::move(losses), actions);
  }
  settle(actions);
}

void Generations::end_and_lose(const std::vector<std::uint32_t>& members,
                               action::EndMember::Why why, const std::string& text,
                               Actions& actions) {
  for (const auto member : members) actions.emplace_back(action::EndMember{member, why, text});
  lose(members, text, actions);
}

bool Generations::waits_for_members() const {
  if (state_.phase != Phase::gathering && state_.phase != Phase::wiring) return false;
  return std::any_of(state_.list.begin(), state_.list.end(), [this](std::uint32_t number) {
    const auto& member = state_.members[number];
    return state_.phase == Phase::gathering ? needed(number) && !member.came
                                            : state_.exchange != 0 && !member.part;
  });
}

bool Generations::waits_for_newcomers() const {
  return state_.phase == Phase::gathering && !waits_for_members() && !needed_members().empty();
}

Actions Generations::members_deadline_passed(const std::string& text) {
  Actions actions;
  if (!waits_for_members()) return actions;
  if (state_.phase == Phase::gathering && !state_.announced) {
    announce(OverKind::failed, {}, actions);
    if (!actions.empty()) return actions;
  }
  std::vector<std::uint32_t> late;
  for (const auto number : state_.list) {
    const auto& member = state_.members[number];
    const bool missing = state_.phase == Phase::gathering ? !member.came : !member.part;
    if (member.state == MemberState::running && missing) late.push_back(number);
  }
  state_.awaits_left = false;
  end_and_lose(late, action::EndMember::Why::late, text, actions);
  return actions;
}

Actions Generations::newcomers_deadline_passed() {
  Actions actions;
  if (waits_for_newcomers()) end_job(action::CannotContinue::Why::too_few, actions);
  return actions;
}

// --- from one generation to the next -------------------------------------------------------------

void Generations::gather() {
  ++state_.generation;
  state_.phase = Phase::gathering;
  state_.announced = false;
  state_.awaits_left = false;
  for (const auto number : state_.list) state_.members[number].part.reset();
}

// Sends `over` to the members that are still in the last generation. Begins to gather the next one,
// unless that has begun.
void Generations::announce(OverKind kind, std::vector<LostMember> lost, Actions& actions) {
  if (state_.phase != Phase::gathering) gather();
  state_.announced = true;
  action::Over over{{state_.generation, kind, std::move(lost)}, {}};
  for (const auto number : state_.list) {
    const auto& member = state_.members[number];
    if (member.state == MemberState::running && !member.came) over.to.push_back(number);
  }
  if (!over.to.empty()) actions.emplace_back(std::move(over));
}

void Generations::end_job(action::CannotContinue::Why why, Actions& actions) {
  state_.phase = Phase::ended;
  actions.emplace_back(action::CannotContinue{why});
}

void Generations::settle(Actions& actions) {
  if (state_.phase == Phase::gathering) settle_gathering(actions);
  if (state_.phase == Phase::wiring) settle_wiring(actions);
  if (state_.phase == Phase::open) settle_open(actions);
}

// Ends the job if all members have left and then failed: no member can take in those that wait.
void Generations::settle_open(Actions& actions) {
  const auto is_lost = [this](std::uint32_t number) {
    return state_.members[number].state == MemberState::lost;
  };
  if (std::all_of(state_.list.begin(), state_.list.end(), is_lost))
    end_job(action::CannotContinue::Why::all_lost, actions);
}

void Generations::settle_gathering(Actions& actions) {
  const auto survivors = needed_members();
  if (!may_grow() && !survivors.empty() && survivors.size() < least_size())
    return end_job(action::CannotContinue::Why::too_few, actions);
  if (waits_for_members()) return;
  if (survivors.empty()) {
    const auto one_is = [this](MemberState state) {
      return std::any_of(state_.list.begin(), state_.list.end(), [&](std::uint32_t number) {
        return state_.members[number].state == state;
      });
    };
    if (one_is(MemberState::left)) return;  // it may come again
    state_.phase = Phase::ended;
    if (one_is(MemberState::lost)) end_job(action::CannotContinue::Why::all_lost, actions);
    return;
  }
  if (leave_out_unreachable_host(actions)) return;
  if (state_.failed_wirings >= kMostFailedWirings)
    return end_job(action::CannotContinue::Why::wiring_fails, actions);
  go(survivors, actions);
}

// After several wirings that failed although no member was lost: ends the members of the host that
// most members of other hosts accuse. Among equals: the one with the fewest members, then the last.
bool Generations::leave_out_unreachable_host(Actions& actions) {
  if (state_.failed_wirings < kFailedWiringsToBlame) return false;
  std::map<std::uint32_t, std::vector<std::uint32_t>> hosts;
  std::map<std::uint32_t, std::size_t> accusers;
  for (const auto number : needed_members()) {
    const auto& member = state_.members[number];
    hosts[member.host].push_back(number);
    const auto accused = member.last_come.accused;
    if (accused >= state_.members.size() || !listed(accused)) continue;
    if (state_.members[accused].host != member.host) ++accusers[state_.members[accused].host];
  }
  const auto key = [&](std::uint32_t host) {
    return std::pair(accusers[host], -static_cast<std::ptrdiff_t>(hosts[host].size()));
  };
  std::optional<std::uint32_t> worst;
  for (const auto& [host, members] : hosts)
    if (accusers[host] > 0 && (!worst || key(host) >= key(*worst))) worst = host;
  if (!worst || hosts.size() < 2) return false;
  end_and_lose(hosts[*worst], action::EndMember::Why::unreachable,
               "could not be reached by ranks of other hosts", actions);
  return true;
}

// Begins the next generation with the survivors, which have all come, and newcomers, if they are
// enough.
void Generations::go(const std::vector<std::uint32_t>& survivors, Actions& actions) {
  const auto place = [this](std::uint32_t number) {
    return MemberPlace{number, state_.members[number].host, state_.members[number].slot};
  };
  std::vector<Survivor> old;
  for (const auto number : survivors) old.push_back({place(number), *state_.members[number].rank});
  std::vector<MemberPlace> newcomers;
  for (const auto number : ready_newcomers()) {
    if (old.size() + newcomers.size() >= state_.limits.max) break;
    // One that has left and comes again has its GPU, and has no rank to keep.
    if (state_.members[number].joined)
      old.push_back({place(number), static_cast<std::uint32_t>(state_.list.size() + number)});
    else
      newcomers.push_back(place(number));
  }
  const auto numbered = number_members(old, newcomers);
  if (numbered.size() >= least_size()) begin_generation(numbered, actions);
}

void Generations::begin_generation(const std::vector<NumberedMember>& ranks, Actions& actions) {
  for (const auto number : state_.list) state_.members[number].rank.reset();
  state_.list.clear();
  action::Go go;
  go.go.generation = state_.generation;
  for (const auto& rank : ranks) {
    const auto number = rank.place.member;
    auto& member = state_.members[number];
    const auto& come = member.last_come;
    member.rank = static_cast<std::uint32_t>(state_.list.size());
    member.joined = true;
    member.came = false;
    state_.list.push_back(number);
    go.go.ranks.push_back({number, rank.place.host, rank.local_rank, come.record});
    go.commits.push_back(come.commits);
    go.steps.push_back(come.step);
  }
  go.go.root = static_cast<std::uint32_t>(std::max_element(go.commits.begin(), go.commits.end()) -
                                          go.commits.begin());
  actions.emplace_back(std::move(go));
  state_.phase = Phase::wiring;
  state_.awaits_left = false;
  state_.exchange = 0;
  state_.exchanges = 0;
}

void Generations::settle_wiring(Actions& actions) {
  const auto took_part = [this](std::uint32_t number) {
    return state_.members[number].part.has_value();
  };
  if (!std::all_of(state_.list.begin(), state_.list.end(), took_part)) return;
  action::Parts parts{{state_.generation, state_.exchange, {}}, state_.list};
  for (const auto number : state_.list) {
    parts.parts.blobs.push_back(std::move(*state_.members[number].part));
    state_.members[number].part.reset();
  }
  actions.emplace_back(std::move(parts));
  state_.exchanges = std::exchange(state_.exchange, 0);
  if (state_.exchanges == kLastExchange) open(actions);
}

void Generations::open(Actions& actions) {
  state_.phase = Phase::open;
  state_.exchanges = 0;
  for (const auto number : state_.list) state_.members[number].last_come.record.clear();
  actions.emplace_back(action::Opened{state_.generation});
  announce_newcomers(actions);
}

// --- newcomers -----------------------------------------------------------------------------------

// Says that newcomers are ready, if the next generation can take one in.
void Generations::announce_newcomers(Actions& actions) const {
  const auto members = needed_members();
  if (ready_newcomers().empty() || members.size() >= state_.limits.max) return;
  actions.emplace_back(action::Updated{kUpdateAdded, members});
}

// Once a member has finished, no newcomer is needed any more.
void Generations::dismiss_newcomers(Actions& actions) {
  for (std::uint32_t number = 0; number < state_.members.size(); ++number) {
    auto& member = state_.members[number];
    if (listed(number) || !member.came) continue;
    member.came = false;
    actions.emplace_back(action::Removed{number, "the first ranks have finished"});
  }
}

}  // namespace hvdrun
