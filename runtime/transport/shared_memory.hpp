// Memory of one rank that the other ranks of its host can map: what hvd_alloc gives out, and what
// hvd_register makes such.
// Collectives reach such buffers where they are, instead of copying them through the segment.
//
// It lies in the segment's file, behind the blocks, or in the file without a name beside it: every
// allocation is a range of its own, and no range is ever used twice, so its place says for ever
// which allocation is meant. Freeing gives the memory back and leaves a hole. So there are two
// files a host, without a name once all have opened them, and nothing to sweep.
//
// Any thread.
#pragma once

#include "base/result.hpp"
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

// Where a buffer lies, in words that other ranks understand. Lives in shared memory.
struct SharedPlace {
  std::uint64_t allocation;  // where its range begins in the file
  std::uint64_t allocation_bytes;
  std::uint64_t offset;  // of the buffer in it
};

class SharedMemory {
 public:
  // The system allows a process 65,530 mappings (vm.max_map_count), and the program needs some.
  static constexpr std::size_t kMostMapped = 16'384;

  // Keeps up to `most_mapped` of other ranks' allocations mapped between calls of map().
  explicit SharedMemory(std::shared_ptr<Segment> segment, std::size_t most_mapped = kMostMapped)
      : segment_(std::move(segment)), most_mapped_(most_mapped) {}

  // Aligned to a page, and zero. Error: there is no room; the message says how much is needed.
  Result<std::byte*> allocate(std::size_t bytes);
  // Nothing happens when it is none of ours.
  void free(std::byte* memory);

  // Makes memory of whole pages such, where it is and with what it holds, and back again. Nobody
  // may use it meanwhile. Error: it cannot be, and is as it was; it is shared already.
  Result<void> adopt(std::byte* memory, std::size_t bytes);
  Result<void> disown(std::byte* memory);

  // Where these bytes lie; nothing when not all are in one allocation of ours.
  std::optional<SharedPlace> find(const void* buffer, std::size_t bytes) const;

  // Another rank's buffer. It stays mapped at least as long as the pointer is kept. Error: it
  // cannot be mapped.
  Result<std::shared_ptr<std::byte>> map(const SharedPlace& place);

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
  std::unordered_map<std::uint64_t, std::size_t> foreign_at_;  // by where they begin in the file
  std::minstd_rand random_;
};

}  // namespace libhvd
