// Several allreduces in one call: all of them run or, if the ranks do not agree, none of them does.
// Runs on the thread of the communicator.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace libhvd {

struct AllreduceGroup {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<std::size_t> lengths;
  hvd_type type;
  hvd_op op;
};

// Tensors of up to kLargestPacked bytes are packed into one allreduce, up to kPackedBytes together.
inline constexpr std::size_t kLargestPacked = 4 * 1024;
inline constexpr std::size_t kPackedBytes = 64 * 1024;

// Runs the group. Error: an argument is wrong, the ranks do not agree, or a rank has failed.
Result<void> allreduce_group(Communicator& communicator, const AllreduceGroup& group,
                             const CallOptions& options);

// Begins a group: the ranks agree on it. Returns true if some ranks have joined; these take part in
// each tensor one by one. Error: as above.
Result<bool> open_allreduce_group(Communicator& communicator, const AllreduceGroup& group,
                                  const CallOptions& options);

}  // namespace libhvd
