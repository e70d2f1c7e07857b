// The data of a checkpoint, from rank 0's files into the buffers of all ranks: a thread reads and
// checks the next blocks while these are being broadcast.
#pragma once

#include "base/result.hpp"
#include "checkpoint/block_map.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/format.hpp"
#include "collective/communicator.hpp"

#include <optional>
#include <string>

namespace libhvd::checkpoint {

// A collective; the same index on all ranks. `file` is rank 0's, null elsewhere. The answer:
// nothing when all data has come; why the file cannot be used, on rank 0 (elsewhere an empty text),
// when a block is damaged, and then some of the data has come. Error: only what the communicator
// says.
Result<std::optional<std::string>> stream_data(Communicator& communicator, const Index& index,
                                               const CheckpointFile* file,
                                               const Destinations& destinations);

}  // namespace libhvd::checkpoint
