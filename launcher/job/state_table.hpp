// The table that SIGQUIT (Ctrl-\) prints: what every rank is doing.
#pragma once

#include "control/messages.hpp"
#include "job/state_answers.hpp"
#include "model/report.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace hvdrun {

class StateTable {
 public:
  void expect(std::size_t agents) { answers_.expect(agents); }  // so many answers make a table

  // Takes one agent's answer; the table's lines when it was the last, else none.
  std::vector<std::string> add(const StatesMessage& states, const std::vector<RankReport>& reports);

 private:
  StateAnswers answers_;
};

}  // namespace hvdrun
