#include "job/generation_history.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace hvdrun {

void GenerationHistory::add(const Action& action, double now) {
  auto& generations = report_.generations;
  if (const auto* const lost = std::get_if<action::Lost>(&action)) {
    auto& losses = generations.empty() ? report_.lost_at_start : generations.back().lost;
    losses.push_back({lost->member, lost->text});
  }
  const bool ends =
      std::holds_alternative<action::Lost>(action) || std::holds_alternative<action::Over>(action);
  if (ends && !interrupted_) interrupted_ = now;
  if (const auto* const go = std::get_if<action::Go>(&action)) {
    if (opened_) generations.back().seconds = now - *opened_;
    opened_.reset();
    begin(*go);
  }
  if (std::holds_alternative<action::Opened>(action)) {
    if (interrupted_ && generations.size() > 1)
      generations.back().pause_seconds = now - *interrupted_;
    interrupted_.reset();
    opened_ = now;
  }
}

bool GenerationHistory::is_reset(const action::Go& next) const {
  if (report_.generations.empty()) return false;
  return !report_.generations.back().lost.empty() ||
         std::ranges::all_of(next.go.ranks,
                             [this](const auto& rank) { return seen_.contains(rank.member); });
}

void GenerationHistory::begin(const action::Go& action) {
  resets_ = resets_with(action);
  const auto& ranks = action.go.ranks;
  auto& generations = report_.generations;
  if (!generations.empty()) {
    auto& last = generations.back().members;
    generations.back().committed = true;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (std::find(last.begin(), last.end(), ranks[rank].member) != last.end() &&
          action.commits[rank] <= most_commits_)
        generations.back().committed = false;
  }
  GenerationReport next;
  next.number = action.go.generation;
  next.step = action.steps[action.go.root];
  for (const auto& rank : ranks) {
    next.members.push_back(rank.member);
    const bool is_later = !generations.empty() || rank.member >= report_.first_members;
    if (seen_.insert(rank.member).second && is_later) next.joined.push_back(rank.member);
  }
  generations.push_back(std::move(next));
  commits_ = action.commits;
  most_commits_ = commits_[action.go.root];
}

void GenerationHistory::failed_after_leaving(std::uint32_t member, const std::string& text) {
  auto& generations = report_.generations;
  const auto last = std::find_if(
      generations.rbegin(), generations.rend(),
      [member](const auto& one) { return std::ranges::count(one.members, member) > 0; });
  if (last != generations.rend()) last->lost.push_back({member, text});
}

void GenerationHistory::committed(std::uint32_t member, std::uint64_t commits) {
  if (report_.generations.empty()) return;
  const auto& members = report_.generations.back().members;
  const auto at = std::find(members.begin(), members.end(), member);
  if (at != members.end()) commits_[static_cast<std::size_t>(at - members.begin())] = commits;
}

GenerationsReport GenerationHistory::report(double now) const {
  auto report = report_;
  if (report.generations.empty()) return report;
  auto& last = report.generations.back();
  if (opened_) last.seconds = now - *opened_;
  std::set<std::size_t> unknown;  // how often they have committed: their agents could not say
  for (const auto& agent : report.lost_agents)
    unknown.insert(agent.members.begin(), agent.members.end());
  last.committed = opened_.has_value();
  for (std::size_t rank = 0; rank < commits_.size(); ++rank)
    if (!unknown.contains(last.members[rank]) && commits_[rank] <= most_commits_)
      last.committed = false;
  return report;
}

}  // namespace hvdrun
