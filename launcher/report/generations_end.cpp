#include "report/generations_end.hpp"

#include "base/result.hpp"
#include "common/text.hpp"
#include "report/quantities.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using Losses = std::vector<LostMemberReport>;

// Returns the losses that were not repaired, in order, those of each generation together.
std::vector<Losses> chain_of_losses(const GenerationsReport& report) {
  std::vector<Losses> chain;
  auto next = report.generations.rbegin();
  for (; next != report.generations.rend(); ++next) {
    chain.push_back(next->lost);
    if (next->committed) break;
  }
  if (next == report.generations.rend()) chain.push_back(report.lost_at_start);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

// Returns the members whose ends decide whether the job has succeeded: not those that were lost
// before the last generation began, and no newcomers that were in none.
std::vector<std::size_t> deciding_members(std::size_t members, const GenerationsReport& report) {
  std::set<std::size_t> out;
  for (std::size_t member = report.first_members; member < members; ++member) out.insert(member);
  const auto leave_out = [&out](const Losses& losses) {
    for (const auto& lost : losses) out.insert(lost.member);
  };
  if (!report.generations.empty()) leave_out(report.lost_at_start);
  for (const auto& generation : report.generations) {
    for (const auto member : generation.joined) out.erase(member);
    if (&generation != &report.generations.back()) leave_out(generation.lost);
  }
  std::vector<std::size_t> deciding;
  for (std::size_t member = 0; member < members; ++member)
    if (!out.contains(member)) deciding.push_back(member);
  return deciding;
}

// Returns the members of `order` that are among these.
std::vector<std::size_t> only(const std::vector<std::size_t>& order,
                              const std::set<std::size_t>& members) {
  std::vector<std::size_t> kept;
  std::copy_if(order.begin(), order.end(), std::back_inserter(kept),
               [&members](std::size_t member) { return members.contains(member); });
  return kept;
}

// Returns the host that was heard least, of `known` and of those that these members were lost with.
std::optional<LostHost> first_lost_host(std::optional<LostHost> known,
                                        const std::vector<LostAgentReport>& agents,
                                        const std::set<std::size_t>& members) {
  for (const auto& agent : agents) {
    const bool is_theirs = std::ranges::any_of(
        agent.members, [&members](std::size_t member) { return members.contains(member); });
    if (is_theirs && (!known || agent.last_heard < known->last_heard))
      known = LostHost{agent.last_heard, {EndKind::agent_lost, agent.reason, kExitLauncher}};
  }
  return known;
}

// Returns "rank 3 on n2" or "ranks 2-3 on n2", for losses of one host that are alike.
std::string describe(std::span<const Repair::Lost> lost) {
  std::vector<int> ranks;
  for (const auto& one : lost) ranks.push_back(static_cast<int>(one.rank));
  return fmt::format("{} on {}", describe_ranks(ranks), lost[0].host);
}

}  // namespace

Verdict judge_generations(const std::optional<StopCause>& cause,
                          const std::optional<LostHost>& lost_host,
                          const std::vector<RankReport>& ranks,
                          const std::vector<std::size_t>& order,
                          const GenerationsReport& generations) {
  const auto deciding = deciding_members(ranks.size(), generations);
  std::vector<RankReport> decided;
  for (std::size_t member = 0; member < ranks.size(); ++member)
    if (std::ranges::count(deciding, member) > 0 || succeeded(ranks[member]))
      decided.push_back(ranks[member]);
  if (std::all_of(decided.begin(), decided.end(), succeeded)) {
    // A rank that seemed to be late may have succeeded: its agent was stopped.
    const bool blames_a_rank = cause && cause->kind == EndKind::rank_failed && !cause->exit_code;
    return judge_end(blames_a_rank ? std::nullopt : cause, lost_host, decided, {});
  }
  const auto chain = chain_of_losses(generations);
  for (const auto& losses : chain) {
    const bool is_last = &losses == &chain.back();
    if (losses.empty() && !is_last) continue;
    std::set<std::size_t> members;
    // Others have failed after they had left, or when the job was no longer repaired.
    if (is_last) members.insert(deciding.begin(), deciding.end());
    for (const auto& lost : losses) members.insert(lost.member);
    const auto with_host = first_lost_host(lost_host, generations.lost_agents, members);
    auto verdict = judge_end(cause, with_host, ranks, only(order, members));
    const auto& first = verdict.first_failure;
    const bool is_known = first ? !failed_for_a_peer(ranks[*first])
                                : with_host.has_value() || (cause && cause->exit_code);
    if (is_known) return verdict;
    const auto ended = std::ranges::find_if_not(
        losses, [&](const auto& lost) { return failed_by_itself(ranks[lost.member]); });
    if (ended == losses.end()) return verdict;
    // hvdrun ended it, or its host is lost.
    const auto& rank = ranks[ended->member];
    verdict = judge_end(cause, std::nullopt, ranks, {});
    verdict.reason = fmt::format("rank {} on {} {}", rank.placement.rank, rank.host, ended->text);
    return verdict;
  }
  return {};  // not reached: the chain has an end
}

void mark_members(const GenerationsReport& generations, std::vector<RankReport>& ranks) {
  for (auto member = generations.first_members; member < ranks.size(); ++member)
    ranks[member].never_joined = true;
  for (const auto& generation : generations.generations)
    for (const auto member : generation.members) {
      auto& rank = ranks[member];
      rank.never_joined = false;
      if (member >= generations.first_members)
        rank.seconds_with_others = rank.seconds_with_others.value_or(0) + generation.seconds;
    }
  if (generations.generations.empty()) return;
  for (const auto& lost : generations.lost_at_start) ranks[lost.member].continued_without = true;
  for (const auto& generation : generations.generations)
    if (&generation != &generations.generations.back())
      for (const auto& lost : generation.lost) ranks[lost.member].continued_without = true;
}

std::string describe_losses(const std::vector<Repair::Lost>& losses) {
  std::string line;
  const std::span lost(losses);
  const auto alike = [](const Repair::Lost& a, const Repair::Lost& b) {
    return a.host == b.host && a.how == b.how;
  };
  for (std::size_t begin = 0, end = 0; begin < lost.size(); begin = end) {
    while (end < lost.size() && alike(lost[begin], lost[end])) ++end;
    const auto& how = lost[begin].how;
    const auto who = describe(lost.subspan(begin, end - begin));
    if (end - begin == lost.size()) {
      const bool is_one = lost.size() == 1;
      line = who + (how.empty() ? (is_one ? " has left" : " have left")
                                : fmt::format(" {} lost ({})", is_one ? "was" : "were", how));
    } else {
      line += fmt::format("{}{} ({}){}", begin == 0 ? "" : ", ", who, how.empty() ? "left" : how,
                          end == lost.size() ? " were lost" : "");
    }
  }
  return line;
}

std::string describe_repair(const Repair& repair) {
  auto line = describe_losses(repair.lost);
  for (const auto& one : repair.joined)
    line += fmt::format("{}new rank {} on {}", line.empty() ? "" : ", ", one.member, one.host);
  if (!repair.joined.empty()) line += repair.joined.size() == 1 ? " has joined" : " have joined";
  line += fmt::format(
      ": {}{} after {}",
      repair.size == 1 ? "1 rank continues" : fmt::format("{} ranks continue", repair.size),
      repair.step == 0 ? "" : fmt::format(" from step {}", repair.step),
      repair.pause_seconds < 1 ? fmt::format("{:.0f} ms", std::ceil(repair.pause_seconds * 1000))
                               : format_duration(repair.pause_seconds));
  std::string numbers;
  for (const auto& one : repair.renumbered)
    numbers +=
        fmt::format("{} rank {} is now rank {}", numbers.empty() ? ";" : ",", one.member, one.rank);
  for (const auto& one : repair.joined)
    if (one.member != one.rank)
      numbers +=
          fmt::format("{} rank {} is rank {}", numbers.empty() ? ";" : ",", one.member, one.rank);
  return line + numbers + (numbers.empty() ? "" : " in the program");
}

}  // namespace hvdrun
