#include "bootstrap/chosen_ranks.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>

namespace libhvd {
namespace {

Error wrong_list(const std::string& why) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, "the list of ranks to start with: " + why);
}

ChosenRanks all_of(int size) {
  ChosenRanks all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Result<ChosenRanks> choose_ranks(const std::optional<std::vector<int>>& wanted,
                                 const RankInfo& in_job) {
  if (!wanted) return ChosenRanks();
  if (wanted->empty()) return wrong_list("it is empty");
  ChosenRanks sorted = *wanted;
  std::sort(sorted.begin(), sorted.end());
  for (const int rank : sorted) {
    if (rank < 0 || rank >= in_job.size)
      return wrong_list("rank " + std::to_string(rank) + " is not one of the job's " +
                        std::to_string(in_job.size));
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return wrong_list("rank " + std::to_string(*twice) + " stands twice in it");
  if (!std::binary_search(sorted.begin(), sorted.end(), in_job.rank))
    return wrong_list("rank " + std::to_string(in_job.rank) +
                      ", this one, is not in it; only the ranks in it may start with it");
  return *wanted == all_of(in_job.size) ? ChosenRanks() : *wanted;
}

// Leaves out local ranks and sizes: only all ranks together know which others are chosen
// (make_topology).
RankInfo info_among(const ChosenRanks& chosen, const RankInfo& in_job) {
  if (chosen.empty()) return in_job;
  const auto own = std::find(chosen.begin(), chosen.end(), in_job.rank);
  RankInfo info;
  info.rank = static_cast<int>(own - chosen.begin());
  info.size = static_cast<int>(chosen.size());
  info.node_rank = in_job.node_rank;
  info.number = in_job.rank;
  return info;
}

int number_among(const ChosenRanks& chosen, int rank) {
  return chosen.empty() ? rank : chosen[static_cast<std::size_t>(rank)];
}

}  // namespace libhvd
