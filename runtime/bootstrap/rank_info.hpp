// A rank's place in the job, as a value.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

// What the launcher says about this rank. What it does not say is worked out below (Topology).
struct RankInfo {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<int> node_rank;
  std::optional<int> node_count;
  std::optional<int> number = std::nullopt;  // what messages call it, when that is not `rank`
};

// A start with some of the ranks of the job, which are counted anew among themselves.

// The ranks of the job that start together, in the order in which they are counted then. Empty: all
// of them, in the job's order.
using ChosenRanks = std::vector<int>;

// What a list of ranks stands for in a job of `in_job.size` ranks, for the rank that `in_job`
// describes. Error (HVD_ERROR_INVALID_ARGUMENT): it is empty, names a rank that there is not, or
// one twice, or not this one.
Result<ChosenRanks> choose_ranks(const std::optional<std::vector<int>>& wanted,
                                 const RankInfo& in_job);

// The place of that rank among them.
RankInfo place_among(const ChosenRanks& chosen, const RankInfo& in_job);

// What messages call the rank in the `place`-th place among them.
int number_among(const ChosenRanks& chosen, int place);

// How often this process has started together with just these ranks, by which the same ranks know
// each other's starts, whatever each has been in besides.
class StartCounts {
 public:
  std::uint64_t next(const ChosenRanks& chosen) { return counts_[chosen]++; }

 private:
  std::map<ChosenRanks, std::uint64_t> counts_;
};

// Which ranks are on which host, worked out from what every rank was told.

// The numbers that hvd_rank and its family give.
struct Topology {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
  int node_rank = 0;
  int node_count = 1;
  bool is_homogeneous = true;
};

// `infos` holds every rank's own, in order. Where the launcher did not say: all ranks are on host
// 0, the local rank is the position among the ranks of the host, sizes are counted. Error
// (HVD_ERROR_ENVIRONMENT): two ranks of a host with one local rank, ranks that disagree on the
// size, ….
Result<Topology> make_topology(std::span<const RankInfo> infos, int rank);

// A rank's info as text for exchange(), and back. Error: not such a text.
std::string encode_rank_info(const RankInfo& info);
Result<RankInfo> decode_rank_info(const std::string& text);

}  // namespace libhvd
