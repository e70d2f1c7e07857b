// Which ranks are on which host, computed from what the launcher said about each rank. Values; pure
// functions, for any thread.
#pragma once

#include "base/error.hpp"
#include "bootstrap/rank_info.hpp"

#include <span>

namespace libhvd {

// The numbers that hvd_rank() and its relatives return.
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

// Computes the topology of `rank`. `infos`: those of all ranks, in order. Where the launcher did
// not say it, all ranks are on host 0, a local rank is the position among the ranks of the host,
// and sizes are counted. Error (HVD_ERROR_ENVIRONMENT): two ranks of a host have the same local
// rank, ranks disagree on the size, ….
Result<Topology> make_topology(std::span<const RankInfo> infos, int rank);

}  // namespace libhvd
