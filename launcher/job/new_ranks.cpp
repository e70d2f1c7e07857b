#include "job/new_ranks.hpp"

#include "base/severity.hpp"
#include "common/text.hpp"
#include "job/launch.hpp"
#include "report/report_text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {

namespace {

// A step may take long, and a program may ask after several.
constexpr std::chrono::milliseconds kMostUnasked{60'000};

// Returns "exit code 1", with the last line of what the rank has reported of its failure.
std::string how_it_ended(const RankReport& rank) {
  auto text = rank.failure.text;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) return describe_end(rank);
  const auto begin = text.rfind('\n');
  return describe_end(rank) + ": " + text.substr(begin == std::string::npos ? 0 : begin + 1);
}

}  // namespace

NewRanks::NewRanks(AttemptParts& attempt, Generations& generations)
    : attempt_(attempt),
      generations_(generations),
      unasked_(attempt.job.loop, [this] { warn_of_unasked(); }) {
  for (const auto& rank : attempt.table.ranks())
    slots_.add({attempt.table.host_index(rank.placement.rank), rank.placement}, true);
  const auto& hosts = attempt.placement().hosts;
  for (std::size_t host = 0; host < hosts.size(); ++host)
    for (const auto& spare : hosts[host].spares) slots_.add({host, spare}, false);
}

std::vector<Slots::Slot> NewRanks::usable(std::vector<Slots::Slot> slots, bool soon) const {
  std::erase_if(slots, [this, soon](const Slots::Slot& slot) {
    const auto& agent = attempt_.agents->on_host(slot.host);
    if (soon && agent.predecessor && !agent.life.has(AgentPhase::running)) return agent.life.gone();
    const auto& life = agent.life;
    return !life.has(AgentPhase::running) || life.done() || life.link_closed();
  });
  return slots;
}

bool NewRanks::may_come() const {
  using enum Generations::Member::State;
  const auto& members = generations_.state().members;
  if (std::ranges::any_of(members,
                          [](const auto& one) { return !one.joined && one.state == running; }))
    return true;
  if (!attempt_.job.spec.elastic.replaces) return false;
  // A slot is free, or will be: its process is lost, and has not ended yet.
  return std::ranges::any_of(usable(slots_.all(), true), [&](const Slots::Slot& slot) {
    return std::ranges::none_of(members, [&](const auto& one) {
      return one.host == slot.host && static_cast<int>(one.slot) == slot.place.local_rank &&
             (one.state == running || one.state == left);
    });
  });
}

void NewRanks::begin() {
  if (attempt_.job.spec.elastic.spares > 0) start_all();
}

void NewRanks::start() {
  if (attempt_.job.spec.elastic.replaces) start_all();
}

void NewRanks::start_all() {
  if (generations_.state().finish_began) return;
  std::map<std::size_t, StartMoreMessage> messages;  // by host
  for (auto& [host, place] : usable(slots_.free(), false)) {
    const auto& name = attempt_.placement().hosts[host].host;
    const auto host_number = static_cast<std::uint32_t>(host);
    const auto slot = static_cast<std::uint32_t>(place.local_rank);
    const auto numbers = generations_.planned(host_number, slot);
    slots_.take(host, place.local_rank);
    const auto member = generations_.add(host_number, slot);
    const auto timer =
        late_.try_emplace(member, attempt_.job.loop, [this, member] { warn_of_late(member); });
    timer.first->second.start(attempt_.job.spec.elastic.elastic_timeout);
    place.rank = attempt_.table.add(host, name, place);
    attempt_.job.output.add(name, place);
    messages[host].ranks.push_back(new_rank(attempt_.job.spec, attempt_.job.plan, attempt_.identity,
                                            attempt_.job.context, host, place, numbers));
  }
  for (const auto& [host, message] : messages)
    attempt_.agents->on_host(host).send(FrameType::start_more, pack(message));
}

void NewRanks::warn_of_late(std::uint32_t number) {
  using enum Generations::Member::State;
  const auto& member = generations_.state().members[number];
  if (member.joined || member.came || member.state != running) return;
  const auto& rank = attempt_.table.ranks()[number];
  attempt_.note(warning_text(fmt::format(
      "new rank {} on {} (pid {}) has not called hvd_init within {} (--elastic-timeout), and the "
      "others run without it: hvdrun why says where it is; if it is killed, {}",
      number, rank.host, rank.pid, seconds_text(attempt_.job.spec.elastic.elastic_timeout),
      attempt_.job.spec.elastic.replaces ? "another one is started" : "none takes its place")));
}

void NewRanks::announced() {
  if (has_warned_of_unasked_ || unasked_.pending()) return;
  unasked_.start(std::min(attempt_.job.spec.elastic.elastic_timeout, kMostUnasked));
}

void NewRanks::warn_of_unasked() {
  using enum Generations::Member::State;
  const auto& state = generations_.state();
  if (state.phase != Generations::Phase::open) return;  // one has asked
  std::vector<int> waiting;
  for (std::size_t number = 0; number < state.members.size(); ++number) {
    const auto& member = state.members[number];
    if (member.came && !member.rank && member.state == running)
      waiting.push_back(static_cast<int>(number));
  }
  if (waiting.empty()) return;
  has_warned_of_unasked_ = true;
  const bool is_one = waiting.size() == 1;
  attempt_.note(warning_text(fmt::format(
      "new {} {} ready, and the program has not asked for {} within {}: it takes new ranks in by "
      "hvd_check_updates in C and C++, by state.commit() in Python",
      describe_ranks(waiting), is_one ? "is" : "are", is_one ? "it" : "them",
      seconds_text(std::min(attempt_.job.spec.elastic.elastic_timeout, kMostUnasked)))));
}

void NewRanks::note(const action::Go& go) {
  unasked_.cancel();
  commits_ = go.commits[go.go.root];
  for (const auto& rank : go.go.ranks) commits_at_first_.emplace(rank.member, commits_);
  for (const auto& [host, slot, commits] : std::exchange(uncertain_, {}))
    if (commits_ > commits) slots_.forgive(host, slot);
}

void NewRanks::ended(std::uint32_t number, const RankReport& rank) {
  const auto& member = generations_.state().members[number];
  const auto first = commits_at_first_.find(number);
  const bool committed = first != commits_at_first_.end() && rank.counters.commits > first->second;
  const auto left_out = slots_.end(member.host, static_cast<int>(member.slot), committed);
  if (generations_.state().finish_began) return;
  if (!member.joined && !rank.stopped_by_us)
    attempt_.note(fmt::format("new rank {} on {} ended before it had joined ({})",
                              rank.placement.rank, rank.host, how_it_ended(rank)));
  if (attempt_.job.spec.elastic.replaces) say_left_out(left_out, member);
}

void NewRanks::lost_with_agent(std::uint32_t number) {
  const auto& member = generations_.state().members[number];
  const auto first = commits_at_first_.find(number);
  const int slot = static_cast<int>(member.slot);
  uncertain_.push_back(
      {member.host, slot, first == commits_at_first_.end() ? commits_ : first->second});
  say_left_out(slots_.end(member.host, slot, false), member);
}

void NewRanks::say_left_out(Slots::LeftOut what, const Generations::Member& member) const {
  if (what == Slots::LeftOut::nothing) return;
  attempt_.note_problem(fmt::format(
      "{} processes one after the other ended in slot {} of {} before their first commit: hvdrun "
      "starts no more {}",
      kMostFailuresInSlot, member.slot, attempt_.placement().hosts[member.host].host,
      what == Slots::LeftOut::host ? "on this host" : "in this slot"));
}

bool NewRanks::want(std::size_t host) const {
  if (!attempt_.job.spec.elastic.replaces || generations_.state().finish_began) return false;
  return std::ranges::any_of(slots_.all(),
                             [host](const Slots::Slot& slot) { return slot.host == host; });
}

}  // namespace hvdrun
