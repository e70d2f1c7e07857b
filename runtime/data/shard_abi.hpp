// From the C ABI's options for a shard to the library's own.
#pragma once

#include "base/result.hpp"
#include "data/shard.hpp"

#include <hvd/data.h>

namespace libhvd {

// Rank and size are the job's where the caller left them to it. `given` is not null.
Result<ShardOptions> read_shard_options(const hvd_shard_options* given);

}  // namespace libhvd
