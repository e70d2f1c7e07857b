// What the agents answer when they are asked what their ranks are doing, put together.
#pragma once

#include "control/messages.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace hvdrun {

class StateAnswers {
 public:
  void expect(std::size_t agents);  // so many answers make a whole
  bool awaited() const { return missing_ > 0; }

  // Takes one agent's answer; all ranks' states, in the order of ranks, when it was the last. Ranks
  // that are not in a job of `size` are left out, and answers that nobody has asked for.
  std::optional<std::vector<RankState>> add(const StatesMessage& states, std::size_t size);

 private:
  std::size_t missing_ = 0;
  std::vector<RankState> ranks_;
};

}  // namespace hvdrun
