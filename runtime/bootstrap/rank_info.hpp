// A rank's place in the job, as a value.
#pragma once

#include <optional>

namespace libhvd {

// What the launcher says about this rank. What it does not say is worked out in topology.hpp.
struct RankInfo {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
  std::optional<int> node_rank;
  std::optional<int> node_count;
  std::optional<int> number = std::nullopt;  // what messages call it, when that is not `rank`
};

}  // namespace libhvd
