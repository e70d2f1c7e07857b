// The memory that the ranks of a host share in a session (process_memory.hpp), as collectives use
// it: they reach such buffers where they are, instead of copying them through the segment.
//
// Any thread.
#pragma once

#include "base/error.hpp"
#include "common/mapping.hpp"
#include "transport/process_memory.hpp"
#include "transport/segment.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

namespace libhvd {

class SharedMemory {
 public:
  // The system allows a process 65,530 mappings (vm.max_map_count), and the program needs some.
  static constexpr std::size_t kMostMapped = 16'384;

  // `own`: of this rank. `most_mapped`: how many allocations of other ranks stay mapped between
  // calls of map().
  SharedMemory(std::shared_ptr<Segment> segment, std::shared_ptr<ProcessMemory> own,
               std::size_t most_mapped = kMostMapped)
      : segment_(std::move(segment)), own_(std::move(own)), most_mapped_(most_mapped) {}

  const std::shared_ptr<ProcessMemory>& own() const { return own_; }

  // Returns where this rank's buffer is; nullopt if the other ranks cannot map it.
  std::optional<SharedLocation> find(const void* buffer, std::size_t bytes) const {
    return own_->find(*segment_, buffer, bytes);
  }

  // Maps another rank's buffer. It stays mapped at least as long as the pointer exists. Error: it
  // cannot be mapped.
  Result<std::shared_ptr<std::byte>> map(const SharedLocation& place);

 private:
  struct Allocation {
    std::uint64_t file;
    std::uint64_t begin;
    bool operator==(const Allocation&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Allocation& allocation) const {
      return allocation.file + allocation.begin / 4096;  // the first is a random number
    }
  };
  struct Foreign {
    Allocation allocation;
    std::shared_ptr<Mapping> mapping;
  };

  std::shared_ptr<Segment> segment_;
  std::shared_ptr<ProcessMemory> own_;
  std::size_t most_mapped_;
  std::mutex mutex_;
  std::vector<Foreign> foreign_;
  std::unordered_map<Allocation, std::size_t, Hash> foreign_at_;  // index in foreign_
  std::minstd_rand random_;
};

}  // namespace libhvd
