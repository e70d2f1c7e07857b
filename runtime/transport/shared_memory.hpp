// Memory of one rank that the other ranks of its host can map: hvd_alloc returns it, and
// hvd_register turns the program's memory into it. Collectives reach such buffers where they are,
// instead of copying them through the segment.
//
// The memory is in the segment's file after the blocks, or in the file without a name beside it.
// Every allocation has a range of its own, and no range is used twice, so a range always means the
// same allocation. Freeing returns the memory to the system and leaves a hole. So there are two
// files for each host, without names once all ranks have opened them, and nothing to clean up.
//
// Any thread.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "transport/segment.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

namespace libhvd {

// Where a buffer is, in a form that other ranks understand. It is itself in shared memory.
struct SharedLocation {
  std::uint64_t allocation;  // where its range begins in the file
  std::uint64_t allocation_bytes;
  std::uint64_t offset;  // of the buffer in the allocation
};

class SharedMemory {
 public:
  // The system allows a process 65,530 mappings (vm.max_map_count), and the program needs some.
  static constexpr std::size_t kMostMapped = 16'384;

  // `most_mapped`: how many allocations of other ranks stay mapped between calls of map().
  explicit SharedMemory(std::shared_ptr<Segment> segment, std::size_t most_mapped = kMostMapped)
      : segment_(std::move(segment)), most_mapped_(most_mapped) {}

  // Allocates memory that is aligned to a page, and zero. Error: there is no room; the message says
  // how much is needed.
  Result<std::byte*> allocate(std::size_t bytes);
  // Frees what allocate() returned. Does nothing with other memory.
  void free(std::byte* memory);

  // Replaces memory of whole pages by shared memory at the same address and with the same contents;
  // disown() does the reverse. No thread may use the memory meanwhile. Error: a part is shared
  // already, or the system refuses; the memory is then unchanged.
  Result<void> adopt(std::byte* memory, std::size_t bytes);
  Result<void> disown(std::byte* memory);

  // Returns where these bytes are; nullopt if they are not all in one allocation of this object.
  std::optional<SharedLocation> find(const void* buffer, std::size_t bytes) const;

  // Maps another rank's buffer. It stays mapped at least as long as the pointer exists. Error: it
  // cannot be mapped.
  Result<std::shared_ptr<std::byte>> map(const SharedLocation& place);

 private:
  struct Range {
    std::uint64_t begin;
    Mapping mapping;
  };

  struct Foreign {
    std::uint64_t begin;
    std::shared_ptr<Mapping> mapping;
  };

  std::shared_ptr<Segment> segment_;
  std::size_t most_mapped_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Range> own_;  // by address
  std::vector<Foreign> foreign_;
  std::unordered_map<std::uint64_t, std::size_t> foreign_at_;  // index in foreign_, by range
  std::minstd_rand random_;
};

}  // namespace libhvd
