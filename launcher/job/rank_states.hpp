// What the ranks of all hosts are doing at one moment, from the agents' answers (question.hpp), and
// the table of it that SIGQUIT (Ctrl-\) prints. Pure functions for the loop thread; nothing fails.
#pragma once

#include "job/question.hpp"
#include "job/rank_table.hpp"
#include "protocol/messages.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns words for a process's state (proc(5), field "state"): "running", "sleeping".
std::string_view state_words(const std::string& state);

// Returns what was answered of the ranks that the job has, in their order.
std::vector<RankState> states_in(const Answers& answers, const RankTable& table);

// Returns the ranks that run on hosts which have not answered.
std::vector<int> silent_ranks(const Answers& answers, const RankTable& table);

// Returns the lines of the table. A rank whose agent has not answered has a line that says so.
std::vector<std::string> state_table(const Answers& answers, const RankTable& table);

}  // namespace hvdrun
