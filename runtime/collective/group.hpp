// Several allreduces that are carried out as one: all of them or, when the ranks do not agree,
// none.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace libhvd {

struct AllreduceGroup {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<std::size_t> counts;
  hvd_type type;
  hvd_op op;
};

// Tensors of up to kLargestPacked bytes share meetings of the ranks, as many as have room in
// kPackedBytes.
inline constexpr std::size_t kLargestPacked = 4 * 1024;
inline constexpr std::size_t kPackedBytes = 64 * 1024;

Result<void> allreduce_group(Communicator& communicator, const AllreduceGroup& group,
                             const CallOptions& options);

// Its beginning: the ranks agree on it. True: some have joined, and take part in each of its
// tensors one by one.
Result<bool> open_allreduce_group(Communicator& communicator, const AllreduceGroup& group,
                                  const CallOptions& options);

}  // namespace libhvd
