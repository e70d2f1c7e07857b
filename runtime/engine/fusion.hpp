// Fusion: runs several small allreduces as one, because most of the cost of each is that the ranks
// wait for each other. On the thread that drives the engine.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"
#include "engine/request.hpp"
#include "engine/settings.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace libhvd {

// Decides which requests, taken in order, run as one: allreduces with valid arguments of one type,
// op, scale factors and kind of memory (for device memory see gpu/fusion_pieces.hpp).
class FusionPlan {
 public:
  explicit FusionPlan(const FusionLimits& limits) : limits_(limits) {}

  // Returns false if the request cannot run together with those before it.
  bool add(const Request& request);

 private:
  const Request* first_ = nullptr;
  FusionLimits limits_;
  std::size_t bytes_ = 0;
};

// Runs the requests of a plan as one. The outcome is that of each request. The caller keeps
// `scratch`, which holds the packed tensors, from call to call.
Result<void> run_fused(Communicator& communicator, std::span<const Request* const> requests,
                       std::vector<std::byte>& scratch);

}  // namespace libhvd
