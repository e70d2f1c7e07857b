#include "job/state_answers.hpp"

#include <algorithm>
#include <utility>

namespace hvdrun {

void StateAnswers::expect(std::size_t agents) {
  missing_ = agents;
  ranks_.clear();
}

std::optional<std::vector<RankState>> StateAnswers::add(const StatesMessage& states,
                                                        std::size_t size) {
  for (const auto& state : states.ranks)
    if (state.rank >= 0 && static_cast<std::size_t>(state.rank) < size) ranks_.push_back(state);
  if (missing_ == 0 || --missing_ > 0) return {};
  std::sort(ranks_.begin(), ranks_.end(),
            [](const RankState& a, const RankState& b) { return a.rank < b.rank; });
  return std::exchange(ranks_, {});
}

}  // namespace hvdrun
