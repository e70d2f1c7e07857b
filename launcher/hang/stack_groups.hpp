// The stacks of a job's ranks as text: equal ones once, with their ranks. Pure functions, for any
// thread.
#pragma once

#include "hang/hang_facts.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// Returns the lines of all ranks, those of `first` before the others. Of a rank in `first`, and of
// one that is alone, also other threads are shown.
std::vector<std::string> stack_lines(const std::vector<RankFacts>& ranks,
                                     const std::vector<int>& first);

}  // namespace hvdrun
