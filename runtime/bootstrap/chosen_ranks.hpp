// A start with some ranks of the job (hvd_init_with), which are numbered anew among themselves.
// Values; pure functions, for any thread.
#pragma once

#include "base/error.hpp"
#include "bootstrap/rank_info.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace libhvd {

// The ranks of the job that start together, in their new order. Empty for all, in the job's order.
using ChosenRanks = std::vector<int>;

// Checks a list of ranks, on the rank that `in_job` describes. nullopt means all ranks. Error
// (HVD_ERROR_INVALID_ARGUMENT): the list is empty, names a rank that does not exist or one rank
// twice, or leaves out this rank.
Result<ChosenRanks> choose_ranks(const std::optional<std::vector<int>>& wanted,
                                 const RankInfo& in_job);

// Returns the info of the rank that `in_job` describes, renumbered among the chosen ranks.
RankInfo info_among(const ChosenRanks& chosen, const RankInfo& in_job);

// Returns what messages call a rank among the chosen ones: its rank in the job.
int number_among(const ChosenRanks& chosen, int rank);

// How often this process has started together with exactly these ranks. The number is the same on
// all of them, whatever other starts each has taken part in. One thread at a time.
class StartCounts {
 public:
  // Returns the number of the next start with these ranks, from 0.
  std::uint64_t next(const ChosenRanks& chosen) { return counts_[chosen]++; }

 private:
  std::map<ChosenRanks, std::uint64_t> counts_;
};

}  // namespace libhvd
