// What all ranks are doing at one moment, put together from the agents' answers, and the table of
// it that SIGQUIT (Ctrl-\) prints. Plain values for the loop thread; nothing fails.
#pragma once

#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

// Returns words for a process's state (proc(5), field "state"): "running", "sleeping".
std::string_view state_words(const std::string& state);

class StateAnswers {
 public:
  using Answer = std::optional<std::vector<RankState>>;

  // The agents of these hosts were asked.
  void expect(std::set<std::size_t> hosts);
  bool awaited() const { return !missing_.empty(); }

  // Takes one agent's answer. Returns all ranks' states, in the order of ranks, if it was the last;
  // otherwise nullopt. Ignores ranks that a job of `size` does not have, and answers that were not
  // asked for.
  Answer add(std::size_t host, const StatesMessage& states, std::size_t size);
  // An agent will not answer: it is lost. Returns the same.
  Answer lose(std::size_t host);

 private:
  std::set<std::size_t> missing_;  // hosts
  std::vector<RankState> ranks_;
};

class StateTable {
 public:
  // The agents of these hosts were asked.
  void expect(std::set<std::size_t> hosts) { answers_.expect(std::move(hosts)); }

  // Takes one agent's answer. Returns the table's lines if it was the last; otherwise none.
  std::vector<std::string> add(std::size_t host, const StatesMessage& states,
                               const std::vector<RankReport>& reports);
  // An agent will not answer. Returns the same.
  std::vector<std::string> lose(std::size_t host, const std::vector<RankReport>& reports);

 private:
  StateAnswers answers_;
};

}  // namespace hvdrun
