// Loads the data of a checkpoint into the memory of all ranks.
//
// load_data() is a collective on the caller's thread. A rank that broadcasts reads on a second
// thread, which ends before load_data() returns. A damaged checkpoint is a result and not an error,
// because the caller then tries another one.
#pragma once

#include "base/error.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "collective/communicator.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace libhvd::checkpoint {

// The address of each part of a checkpoint in the caller's memory, with room for its bytes.
using Destinations = std::vector<std::byte*>;

// Fills the destinations on all ranks. If all ranks are on one host and see the file, each reads it
// by itself out of the host's page cache: one copy per rank, and no rank waits for another.
// Otherwise rank 0 reads, and its blocks are broadcast.
//
// `found` is the same on all ranks. `file` is rank 0's, and null on the others. Returns nullopt if
// all data has been loaded. If a block is damaged, returns why the file cannot be used (on rank 0;
// on other ranks the text may be empty); some data has then been written already. Error: a
// collective failed.
Result<std::optional<std::string>> load_data(Communicator& communicator, const Found& found,
                                             const CheckpointFile* file,
                                             const Destinations& destinations);

}  // namespace libhvd::checkpoint
