#include "job/quiet_time.hpp"

#include <algorithm>

namespace hvdrun {
namespace {

// Threads that libraries keep wake up now and then; those of torch with gloo use 0.25 % of a
// processor. A rank that uses less of one than this is quiet. docs/debug/hangs.md and hvdrun(1)
// name the number.
constexpr double kQuietShare = 0.005;
// The kernel gives the time in ticks of a hundredth of a second.
constexpr double kRounding = 0.01;

std::uint64_t calls_of(const RankState& state) {
  return state.calls + state.step + state.epoch;
}

}  // namespace

void QuietTime::begin(Time now, std::chrono::milliseconds timeout) {
  since_ = now;
  noise_ = kQuietShare * std::chrono::duration<double>(timeout).count() + kRounding;
  base_.clear();
}

bool QuietTime::has_worked(const RankState& state) const {
  const auto base = base_.find(state.rank);
  return base != base_.end() && (calls_of(state) != base->second.calls ||
                                 state.activity.cpu_seconds > base->second.cpu_seconds + noise_);
}

void QuietTime::add(Time now, const std::vector<RankState>& states) {
  if (std::ranges::any_of(states, [this](const auto& state) { return has_worked(state); })) {
    since_ = now;
    base_.clear();
  }
  for (const auto& state : states) {
    const auto [base, is_new] =
        base_.try_emplace(state.rank, Use{state.activity.cpu_seconds, calls_of(state)});
    // Processes below a rank have ended.
    if (!is_new)
      base->second.cpu_seconds = std::min(base->second.cpu_seconds, state.activity.cpu_seconds);
  }
}

}  // namespace hvdrun
