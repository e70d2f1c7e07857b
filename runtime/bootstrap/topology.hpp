// Which ranks are on which host, worked out from what every rank was told.
#pragma once

#include "base/result.hpp"
#include "bootstrap/bootstrap.hpp"

#include <span>
#include <string>

namespace libhvd {

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
