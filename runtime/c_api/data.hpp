// Shared by the files that implement hvd/data.h: the handle of a source, and the options of a
// shard. Any thread.
#pragma once

#include "base/error.hpp"
#include "io/shard.hpp"
#include "io/source.hpp"

#include <memory>

#include <hvd/data.h>

// Readers share the source.
struct hvd_source {
  std::shared_ptr<const libhvd::Source> source;
};

namespace libhvd {

// Returns the options of a shard, with the job's rank and size if the caller leaves them to it.
// `given` is not null. Error: its struct_size is wrong; the job is needed and not initialised.
Result<ShardOptions> read_shard_options(const hvd_shard_options* given);

}  // namespace libhvd
