// The data of a checkpoint, into the buffers of all ranks. When all of them are on one host and see
// the file, each reads it for itself, out of the host's page cache: one copy a rank, and nobody
// waits for anybody. Else rank 0 reads, and its blocks are broadcast (load_stream.hpp).
#pragma once

#include "base/result.hpp"
#include "checkpoint/block_map.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/checkpoints.hpp"
#include "collective/communicator.hpp"

#include <optional>
#include <string>

namespace libhvd::checkpoint {

// A collective; the same `found` on all ranks, and `file`, which is null elsewhere, is rank 0's.
// The answer: nothing when all data has come; when a block is damaged, why the file cannot be used
// (on rank 0 at least), and then some of the data has come. Error: only what the communicator says.
Result<std::optional<std::string>> load_data(Communicator& communicator, const Found& found,
                                             const CheckpointFile* file,
                                             const Destinations& destinations);

}  // namespace libhvd::checkpoint
