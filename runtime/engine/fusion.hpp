// Several small allreduces as one: what of each costs most is the meeting of the ranks.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"
#include "engine/request.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace libhvd {

// Larger ones gain less by sharing a meeting than packing them costs.
inline constexpr std::size_t kLargestFusedBytes = 4 * 1024;

// Which requests, taken in order, go together: sound allreduces of one type, op, factors and kind
// of memory (for device memory see gpu/fusion_buffer.hpp).
class FusionPlan {
 public:
  // `most_bytes`: of all together.
  explicit FusionPlan(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // False: this one does not go with the ones before.
  bool add(const Request& request);

 private:
  const Request* first_ = nullptr;
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
};

// Carries out what a plan holds. Its outcome is that of each. Scratch is for the caller to keep.
Result<void> run_fused(Communicator& communicator, std::span<const Request* const> requests,
                       std::vector<std::byte>& scratch);

// run_fused() for requests whose buffers are in device memory.

// The same, see fusion.hpp.
Result<void> run_fused_on_device(Communicator& communicator,
                                 std::span<const Request* const> requests);

}  // namespace libhvd
