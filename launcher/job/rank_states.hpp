// What all ranks are doing at one moment, put together from the agents' answers, and the table of
// it that SIGQUIT (Ctrl-\) prints. Plain values for the loop thread; nothing fails.
#pragma once

#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns words for a process's state (proc(5), field "state"): "running", "sleeping".
std::string_view state_words(const std::string& state);

class StateAnswers {
 public:
  // Sets how many agents were asked.
  void expect(std::size_t agents);
  bool awaited() const { return missing_ > 0; }

  // Takes one agent's answer. Returns all ranks' states, in the order of ranks, if it was the last;
  // otherwise nullopt. Ignores ranks that a job of `size` does not have, and answers that were not
  // asked for.
  std::optional<std::vector<RankState>> add(const StatesMessage& states, std::size_t size);

 private:
  std::size_t missing_ = 0;
  std::vector<RankState> ranks_;
};

class StateTable {
 public:
  // Sets how many agents were asked.
  void expect(std::size_t agents) { answers_.expect(agents); }

  // Takes one agent's answer. Returns the table's lines if it was the last; otherwise none.
  std::vector<std::string> add(const StatesMessage& states, const std::vector<RankReport>& reports);

 private:
  StateAnswers answers_;
};

}  // namespace hvdrun
