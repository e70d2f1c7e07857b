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
inline constexpr std::size_t kFusionBytes = 64 * 1024;  // all together

// Which requests, taken in order, go together: sound allreduces of one type, op and factors.
class FusionPlan {
 public:
  // False: this one does not go with the ones before.
  bool add(const Request& request);
  std::size_t size() const { return size_; }

 private:
  const Request* first_ = nullptr;
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
};

// Carries out what a plan holds. Its outcome is that of each. Scratch is for the caller to keep.
Outcome run_fused(Communicator& communicator, std::span<const Request* const> requests,
                  std::vector<std::byte>& scratch);

}  // namespace libhvd
