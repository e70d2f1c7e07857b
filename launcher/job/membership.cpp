#include "job/membership.hpp"

#include "base/severity.hpp"
#include "common/text.hpp"
#include "job/member_frames.hpp"
#include "model/rank_set.hpp"
#include "protocol/member_messages.hpp"
#include "report/first_failure.hpp"
#include "report/report_text.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns the members that the job begins with, in the order of ranks.
std::vector<MemberPlace> first_members(const AttemptParts& attempt) {
  std::vector<MemberPlace> members;
  for (const auto& rank : attempt.table.ranks())
    members.push_back({static_cast<std::uint32_t>(rank.placement.rank),
                       static_cast<std::uint32_t>(attempt.table.host_index(rank.placement.rank)),
                       static_cast<std::uint32_t>(rank.placement.local_rank)});
  return members;
}

Generations::Limits limits_of(const ElasticSpec& elastic, std::size_t size) {
  return {.min = static_cast<std::size_t>(elastic.min_ranks.value_or(1)),
          .max = std::max(size, static_cast<std::size_t>(elastic.max_ranks.value_or(0))),
          .grows = elastic.replaces};
}

// Returns "killed by SIGKILL" for "was killed by SIGKILL", and "with the agent" for "was lost with
// the agent".
std::string in_short(std::string how) {
  for (const std::string_view words : {"was lost: ", "was lost ", "was "})
    if (how.starts_with(words)) return how.substr(words.size());
  return how;
}

// Returns "was killed by SIGKILL".
std::string how_lost(const RankReport& rank) {
  if (rank.stopped_by_us && !failed_by_itself(rank)) return "was stopped by its agent";
  return (rank.signal != 0 ? "was " : "ended with ") + describe_end(rank);
}

}  // namespace

Membership::Membership(AttemptParts& attempt)
    : attempt_(attempt),
      generations_(limits_of(attempt.job.spec.elastic, attempt.table.ranks().size()),
                   first_members(attempt)),
      history_(attempt.table.ranks().size()),
      new_ranks_(attempt, generations_),
      init_deadline_(attempt.job.loop, [this] { on_no_init(); }),
      deadline_(attempt.job.loop, [this] { on_deadline(); }),
      newcomers_deadline_(attempt.job.loop,
                          [this] { carry_out(generations_.newcomers_deadline_passed()); }),
      end_timer_(attempt.job.loop, [this] { give_up_last(); }),
      stop_timer_(attempt.job.loop, [this] { attempt_.stop(stop_cause_); }) {}

void Membership::begin() {
  new_ranks_.begin();
}

void Membership::leave() {
  new_ranks_.leave();
  init_deadline_.cancel();
  deadline_.cancel();
  newcomers_deadline_.cancel();
  end_timer_.cancel();
  stop_timer_.cancel();
}

double Membership::now() const {
  return std::chrono::duration<double>(attempt_.job.loop.now() - attempt_.begun).count();
}

GenerationsReport Membership::report() const {
  auto history = history_;
  for (const auto& rank : attempt_.table.ranks())
    history.committed(static_cast<std::uint32_t>(rank.placement.rank), rank.counters.commits);
  return history.report(now());
}

// --- what members do -----------------------------------------------------------------------------

Result<void> Membership::take(const AgentState& agent, const Frame& frame) {
  if (frame.type == FrameType::come) {
    one_has_come_ = true;
    init_deadline_.cancel();
    const auto come = parse_from_member(frame.payload);
    one_has_reformed_ = one_has_reformed_ || (come && come->generation > 0);
  }
  const bool was_open = generations_.state().phase == Generations::Phase::open;
  const auto generation = generations_.state().generation;
  HVD_TRY(const auto actions,
          take_member_frame(generations_, static_cast<std::uint32_t>(agent.host_index), frame));
  // A single survivor is past the gathering of the next one already.
  if (was_open && generations_.state().generation != generation) history_.interrupted(now());
  carry_out(actions);
  return {};
}

bool Membership::has_joined(int rank) const {
  return generations_.state().members[static_cast<std::size_t>(rank)].joined;
}

bool Membership::is_lost(int rank) const {
  return generations_.state().members[static_cast<std::size_t>(rank)].state ==
         Generations::Member::State::lost;
}

void Membership::ended(const RankReport& rank) {
  const auto member = static_cast<std::uint32_t>(rank.placement.rank);
  last_failed_for_a_peer_ = failed_for_a_peer(rank);
  const bool is_to_blame = failed_by_itself(rank) && !last_failed_for_a_peer_;
  if (stop_timer_.pending() && (is_to_blame || attempt_.table.all_ended()))
    return attempt_.stop(stop_cause_);
  new_ranks_.ended(member, rank);
  if (succeeded(rank)) {
    carry_out(generations_.finished(member));
    return end_newcomers();
  }
  if (has_joined(rank.placement.rank))
    await_init(fmt::format("rank {} on {} was lost ({})", member, rank.host, describe_end(rank)));
  lost_after_leaving(member, how_lost(rank));
  carry_out(generations_.lost(member, how_lost(rank)));
  end_newcomers();
}

// A program without libhvd does not know of the loss. Its other ranks may wait for the lost one for
// ever.
void Membership::await_init(const std::string& loss) {
  if (one_has_come_ || init_deadline_.pending() || attempt_.table.all_ended()) return;
  const auto patience = attempt_.job.spec.elastic.reset_timeout;
  init_deadline_.start(patience);
  attempt_.note(warning_text(
      fmt::format("{}, and no rank has called hvd_init yet: the job ends in {} unless one does, "
                  "because only ranks that use libhvd can continue (--min-np)",
                  loss, seconds_text(patience))));
}

void Membership::on_no_init() {
  StopCause cause;
  cause.reason = "a rank was lost, and no other has called hvd_init";
  attempt_.note(cause.reason + ": stopping");
  attempt_.stop(std::move(cause));
}

// Stops the job if only processes are left that were never in it.
void Membership::end_newcomers() {
  const auto& ranks = attempt_.table.ranks();
  const auto is_over = [](const auto& member, const RankReport& rank) {
    return !member.joined || rank.exited || member.state == Generations::Member::State::lost;
  };
  if (!attempt_.table.all_ended() &&
      std::equal(generations_.state().members.begin(), generations_.state().members.end(),
                 ranks.begin(), is_over))
    attempt_.stop({});
}

// Takes note of it if the member had left. It may have come again.
void Membership::lost_after_leaving(std::uint32_t member, const std::string& how) {
  const auto& known = generations_.state().members[member];
  using enum Generations::Member::State;
  if (known.rank || !known.joined || (known.state != left && known.state != running)) return;
  history_.failed_after_leaving(member, how);
  // The next generation is being wired up, and its note is still to come.
  if (std::ranges::count(opened_, member) > 0) losses_.push_back({member, how});
}

void Membership::lose_host(std::size_t host, const std::string& reason, double last_heard,
                           const std::string& how) {
  using enum Generations::Member::State;
  const auto& members = generations_.state().members;
  LostAgentReport loss{{}, reason, last_heard};
  std::vector<int> ranks;
  for (std::uint32_t member = 0; member < members.size(); ++member) {
    if (members[member].host != host) continue;
    if (members[member].state != running && members[member].state != left) continue;
    loss.members.push_back(member);
    if (members[member].joined) ranks.push_back(static_cast<int>(member));
    lost_after_leaving(member, how);
  }
  if (loss.members.empty()) return;
  note_lost_newcomers(loss.members, how);
  history_.add(std::move(loss));
  last_failed_for_a_peer_ = false;
  if (stop_timer_.pending()) return attempt_.stop(stop_cause_);
  if (!ranks.empty())
    await_init(fmt::format("{} on {} {} lost ({})", describe_ranks(ranks),
                           attempt_.agents->on_host(host).host.name,
                           ranks.size() == 1 ? "was" : "were", in_short(how)));
  carry_out(generations_.host_given_up(static_cast<std::uint32_t>(host), how));
  end_newcomers();
}

// The lines of later generations do not name them.
void Membership::note_lost_newcomers(const std::vector<std::size_t>& lost,
                                     const std::string& how) const {
  if (generations_.state().finish_began) return;
  for (const auto member : lost)
    if (!generations_.state().members[member].joined)
      attempt_.note(fmt::format("new rank {} on {} was lost before it had joined ({})", member,
                                attempt_.table.ranks()[member].host, in_short(how)));
}

bool Membership::wants_another_agent(std::size_t host) {
  using enum Generations::Member::State;
  const auto& members = generations_.state().members;
  if (std::ranges::none_of(members, [host](const auto& member) {
        return member.host != host && member.joined && member.state == running;
      }))
    return false;
  for (std::uint32_t member = 0; member < members.size(); ++member)
    if (members[member].host == host &&
        (members[member].state == running || members[member].state == left))
      new_ranks_.lost_with_agent(member);
  return new_ranks_.want(host);
}

bool Membership::has_finished_on(std::size_t host) const {
  const auto& members = generations_.state().members;
  return std::ranges::any_of(members, [host](const auto& member) {
    return member.host == host && member.state == Generations::Member::State::finished;
  });
}

void Membership::resume() {
  if (deadline_.pending()) watch_deadline(true);
  if (init_deadline_.pending()) init_deadline_.start(attempt_.job.spec.elastic.reset_timeout);
}

// --- what is decided -----------------------------------------------------------------------------

void Membership::carry_out(const Actions& actions) {
  bool next_wait = false;
  for (const auto& action : actions) {
    if (const auto* const go = std::get_if<action::Go>(&action)) {
      if (stopped_at_reset_limit(*go)) return;
      new_ranks_.note(*go);
    }
    history_.add(action, now());
    send(action);
    if (const auto* const end = std::get_if<action::EndMember>(&action)) end_member(*end);
    if (const auto* const lost = std::get_if<action::Lost>(&action)) losses_.push_back(*lost);
    if (std::holds_alternative<action::Opened>(action)) note_opened();
    if (std::holds_alternative<action::Updated>(action)) new_ranks_.announced();
    next_wait = next_wait || std::holds_alternative<action::Over>(action) ||
                std::holds_alternative<action::Go>(action) ||
                std::holds_alternative<action::Parts>(action);
    if (const auto* const last = std::get_if<action::CannotContinue>(&action))
      return stop(last->why);
  }
  watch_deadline(next_wait);
  watch_ends();
  watch_newcomers();
}

// Starts new processes when the others train again, or when they wait for them. Before that they
// would only take processors from them; and if the job ends instead, nothing was started in vain.
void Membership::watch_newcomers() {
  const bool waits = generations_.waits_for_newcomers();
  if (waits || (generations_.state().phase == Generations::Phase::open && !opened_.empty()))
    new_ranks_.start();
  if (!waits) return newcomers_deadline_.cancel();
  if (!new_ranks_.may_come()) return carry_out(generations_.newcomers_deadline_passed());
  if (newcomers_deadline_.pending()) return;
  newcomers_deadline_.start(attempt_.job.spec.elastic.elastic_timeout);
  const auto losses = describe_losses(named(losses_));
  attempt_.note(fmt::format("{}{}{}: waiting for new ones", losses, losses.empty() ? "" : ": ",
                            too_few().reason));
}

// Stops the job if its ranks have come together as often as they may. Returns whether it did.
bool Membership::stopped_at_reset_limit(const action::Go& go) const {
  const auto limit = attempt_.job.spec.elastic.reset_limit;
  const auto resets = history_.resets_with(go);
  if (!limit || resets <= static_cast<std::size_t>(*limit)) return false;
  StopCause cause;
  cause.reason = fmt::format("generation {} would be reset {}, and --reset-limit allows {}",
                             go.go.generation, resets, *limit);
  attempt_.note(cause.reason + ": stopping");
  attempt_.stop(std::move(cause));
  return true;
}

void Membership::send(const Action& action) {
  const auto frame = frame_of(action);
  if (!frame) return;
  std::set<std::uint32_t> hosts;
  for (const auto member : frame->to) hosts.insert(generations_.state().members[member].host);
  for (const auto host : hosts)
    if (const auto& link = attempt_.agents->on_host(host).link)
      link->send_shared(frame->type, host, frame->payload);
}

void Membership::end_member(const action::EndMember& action) {
  const auto rank = static_cast<int>(action.member);
  const auto& report = attempt_.table.ranks()[action.member];
  if (report.exited) return;
  attempt_.note(
      warning_text(fmt::format("rank {} on {} {}; ending it", rank, report.host, action.text)));
  attempt_.agents->on_host(attempt_.table.host_index(rank))
      .send(FrameType::end_member, pack_number(action.member));
  ending_.insert(rank);
}

std::vector<Repair::Lost> Membership::named(const std::vector<action::Lost>& losses) const {
  std::vector<Repair::Lost> named;
  for (const auto& loss : losses) {
    const auto& rank = attempt_.table.ranks()[loss.member];
    const bool by_itself = rank.exited && !rank.stopped_by_us;
    named.push_back({loss.member, rank.host, by_itself ? describe_end(rank) : in_short(loss.text)});
  }
  return named;
}

void Membership::note_opened() {
  const auto& list = generations_.state().list;
  const auto losses = std::exchange(losses_, {});
  const auto before = std::exchange(opened_, list);
  Repair repair;
  repair.lost = named(losses);
  using enum Generations::Member::State;
  for (const auto member : before)
    if (const auto state = generations_.state().members[member].state;
        state == left || state == finished)
      repair.lost.push_back({member, attempt_.table.ranks()[member].host, {}});
  const auto report = history_.report(now());
  for (const auto member : report.generations.back().joined) {
    const auto at = std::ranges::find(list, static_cast<std::uint32_t>(member));
    repair.joined.push_back({static_cast<std::uint32_t>(member),
                             attempt_.table.ranks()[member].host,
                             static_cast<std::uint32_t>(at - list.begin())});
  }
  if (repair.lost.empty() && repair.joined.empty()) return;
  repair.size = list.size();
  repair.step = report.generations.back().step;
  repair.pause_seconds = report.generations.back().pause_seconds;
  for (std::uint32_t rank = 0; rank < list.size(); ++rank)
    if (std::ranges::count(report.generations.back().joined, list[rank]) == 0 &&
        (rank >= before.size() ? list[rank] != rank : before[rank] != list[rank]))
      repair.renumbered.push_back({list[rank], rank});
  attempt_.note(describe_repair(repair));
}

StopCause Membership::too_few() const {
  const auto left = std::ranges::count_if(generations_.state().members, [](const auto& member) {
    return member.joined && member.state != Generations::Member::State::lost;
  });
  StopCause cause;
  cause.reason = fmt::format("{} left, fewer than --min-np {}",
                             left == 1 ? "1 rank is" : fmt::format("{} ranks are", left),
                             *attempt_.job.spec.elastic.min_ranks);
  return cause;
}

void Membership::stop(action::CannotContinue::Why why) {
  StopCause cause;
  if (why == action::CannotContinue::Why::too_few) {
    cause = too_few();
    attempt_.note(cause.reason + ": stopping");
  }
  const bool one_failed_for_a_peer = std::ranges::any_of(losses_, [this](const auto& loss) {
    return failed_for_a_peer(attempt_.table.ranks()[loss.member]);
  });
  if (!opened_.empty() && !one_has_reformed_ && one_failed_for_a_peer)
    attempt_.note(
        warning_text("ranks ended because others had: a program continues without lost ranks only "
                     "in hvd.elastic.run, or by hvd_reform (--min-np)"));
  deadline_.cancel();
  if (why == action::CannotContinue::Why::wiring_fails)
    return attempt_.stop(
        {EndKind::rank_failed, "the ranks could not connect to each other", kExitLauncher});
  if (!last_failed_for_a_peer_ || attempt_.table.all_ended())
    return attempt_.stop(std::move(cause));
  stop_cause_ = std::move(cause);
  stop_timer_.start(kPeersEnd);
}

// --- members that the others wait for ------------------------------------------------------------

// The first generation may take as long to come together as it likes, unless a rank is lost.
void Membership::watch_deadline(bool anew) {
  if (!generations_.waits_for_members())
    deadline_.cancel();
  else if (anew || (!deadline_.pending() && generations_.state().generation > 1))
    deadline_.start(attempt_.job.spec.elastic.reset_timeout);
}

void Membership::on_deadline() {
  const auto generation = generations_.state().generation;
  const bool gathers = generations_.state().phase == Generations::Phase::gathering;
  carry_out(generations_.members_deadline_passed(
      fmt::format("did not {} generation {} within {} (--reset-timeout)",
                  gathers ? "come to" : "connect to the others of", generation,
                  seconds_text(attempt_.job.spec.elastic.reset_timeout))));
}

// An agent that is stopped ends none.
void Membership::watch_ends() {
  if (ending_.empty()) return;
  const auto running = attempt_.table.running();
  const auto is_ended = [this](int rank) { return ending_.contains(rank); };
  if (running.empty() || !std::ranges::all_of(running, is_ended))
    end_timer_.cancel();
  else if (!end_timer_.pending())
    end_timer_.start(kAgentPatience);
}

void Membership::give_up_last() {
  for (const int rank : attempt_.table.running()) {
    auto& agent = attempt_.agents->on_host(attempt_.table.host_index(rank));
    if (!agent.life.gone()) attempt_.agents->give_up(agent, "it does not end its ranks");
  }
}

// --- ranks and members ---------------------------------------------------------------------------

std::vector<RankState> Membership::members_among(std::vector<RankState> ranks) const {
  const auto& state = generations_.state();
  std::erase_if(ranks, [&state](const RankState& rank) {
    return state.members[static_cast<std::size_t>(rank.rank)].state ==
               Generations::Member::State::lost ||
           !state.members[static_cast<std::size_t>(rank.rank)].rank;
  });
  for (auto& rank : ranks) {
    const auto missing = RankSet::parse(rank.background_missing);
    if (rank.background_missing.empty() || !missing) continue;
    RankSet members;
    for (std::size_t number = 0; number < opened_.size(); ++number)
      if (missing->contains(static_cast<int>(number)))
        members.add(static_cast<int>(opened_[number]), static_cast<int>(opened_[number]));
    rank.background_missing = members.to_string();
  }
  return ranks;
}

}  // namespace hvdrun
