// What the launcher says about a rank's place in the job. A value; pure functions, for any thread.
#pragma once

#include "base/error.hpp"

#include <optional>
#include <string>

namespace libhvd {

// Topology (rank_topology.hpp) completes what the launcher does not say.
struct RankInfo {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<int> node_rank;
  std::optional<int> node_count;
  std::optional<int> number = std::nullopt;  // what messages call the rank, if that is not `rank`
};

// Converts to text for Bootstrap::exchange(), and back. Error: malformed text.
std::string encode_rank_info(const RankInfo& info);
Result<RankInfo> decode_rank_info(const std::string& text);

}  // namespace libhvd
