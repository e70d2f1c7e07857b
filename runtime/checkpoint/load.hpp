// Where the blocks of a checkpoint's data belong in the caller's memory.
#pragma once

#include "base/result.hpp"
#include "checkpoint/checkpoint_file.hpp"
#include "checkpoint/format.hpp"
#include "collective/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace libhvd::checkpoint {

// Where the parts of a checkpoint go: one pointer a part, with room for its bytes.
using Destinations = std::vector<std::byte*>;

// Both arguments must outlive it.
class BlockMap {
 public:
  BlockMap(const Index& index, const Destinations& destinations)
      : index_(index), destinations_(destinations) {}

  std::uint64_t blocks() const { return index_.blocks.count(); }
  std::uint64_t length(std::uint64_t block) const { return index_.blocks.length(block); }

  // The place in the caller's memory when the block lies in one part; else null.
  std::byte* direct(std::uint64_t block) const;

  // Copies a block's bytes to where they belong.
  void scatter(std::uint64_t block, const std::byte* bytes) const;

 private:
  std::size_t first_part(std::uint64_t block) const;

  const Index& index_;
  const Destinations& destinations_;
};

// The data of a checkpoint, into the buffers of all ranks. When all of them are on one host and see
// the file, each reads it for itself, out of the host's page cache: one copy a rank, and nobody
// waits for anybody. Else rank 0 reads, and its blocks are broadcast.

// A collective; the same `found` on all ranks, and `file`, which is null elsewhere, is rank 0's.
// The answer: nothing when all data has come; when a block is damaged, why the file cannot be used
// (on rank 0 at least), and then some of the data has come. Error: only what the communicator says.
Result<std::optional<std::string>> load_data(Communicator& communicator, const Found& found,
                                             const CheckpointFile* file,
                                             const Destinations& destinations);

// The data of a checkpoint, from rank 0's files into the buffers of all ranks: a thread reads and
// checks the next blocks while these are being broadcast.

// A collective; the same index on all ranks. `file` is rank 0's, null elsewhere. The answer:
// nothing when all data has come; why the file cannot be used, on rank 0 (elsewhere an empty text),
// when a block is damaged, and then some of the data has come. Error: only what the communicator
// says.
Result<std::optional<std::string>> stream_data(Communicator& communicator, const Index& index,
                                               const CheckpointFile* file,
                                               const Destinations& destinations);

}  // namespace libhvd::checkpoint
