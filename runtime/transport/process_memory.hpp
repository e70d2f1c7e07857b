// Memory of this process that the other ranks of its host can map: hvd_alloc returns it, and
// hvd_register turns the program's memory into it. It outlives sessions. shared_memory.hpp finds it
// for collectives.
//
// The memory is in a file without a name (memory_file.hpp), which another rank opens as
// /proc/PID/fd/N. A pid may mean another process there, so the file begins with a random number, by
// which the rank recognises it. If the ranks of a session cannot open each other's files in this
// way, an allocation is in the file of that session's segment. Ranks of later sessions then cannot
// reach it.
//
// Every allocation has a range of its own, and no range is used twice, so a range of a file always
// means the same allocation. Freeing returns the memory to the system and leaves a hole. The file
// goes with its last allocation.
//
// Any thread. The process has one object.
#pragma once

#include "base/error.hpp"
#include "common/mapping.hpp"
#include "transport/memory_file.hpp"
#include "transport/segment.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <sys/types.h>

namespace libhvd {

// Where a buffer is, in a form that other ranks understand. It is itself in shared memory.
struct SharedLocation {
  std::uint64_t file;        // the number at the beginning of the file; 0: the segment's file
  std::uint64_t allocation;  // where its range begins in the file
  std::uint64_t allocation_bytes;
  std::uint64_t offset;     // of the buffer in the allocation
  std::int32_t pid;         // of the process that has the file open
  std::int32_t descriptor;  // there
};

class ProcessMemory {
 public:
  // Allocates memory that is aligned to a page, and zero. `segment`: of this session. Error: there
  // is no room; the message says how much is needed.
  Result<std::byte*> allocate(const std::shared_ptr<Segment>& segment, std::size_t bytes);
  // Frees what allocate() returned. Does nothing with other memory.
  void free(std::byte* memory);

  // Replaces memory of whole pages by shared memory at the same address and with the same contents;
  // disown() does the reverse. No thread may use the memory meanwhile. Error: a part is shared
  // already, or the system refuses; the memory is then unchanged.
  Result<void> adopt(const std::shared_ptr<Segment>& segment, std::byte* memory, std::size_t bytes);
  Result<void> disown(std::byte* memory);

  // Returns where these bytes are; nullopt if they are not all in one allocation that the ranks of
  // this segment can map.
  std::optional<SharedLocation> find(const Segment& segment, const void* buffer,
                                     std::size_t bytes) const;

  // Maps the allocation of another process, which is not in a segment's file. Error: the file
  // cannot be opened, or is another one.
  static Result<Mapping> map(const SharedLocation& place);

 private:
  struct File {
    MemoryFile memory;
    std::uint64_t number;  // a random one, never 0
    pid_t pid;             // of the process that has made it
    std::uint64_t end;     // of all ranges so far
  };
  struct Range {
    std::shared_ptr<File> file;        // null: it is in the segment's
    std::shared_ptr<Segment> segment;  // null: it is in the process's file
    std::uint64_t begin;
    Mapping mapping;
  };

  static Result<std::shared_ptr<File>> make_file();
  Result<Range> reserve(const std::shared_ptr<Segment>& segment, std::size_t bytes);
  static Result<Range> reserve_in(const std::shared_ptr<Segment>& segment, std::size_t bytes);
  static void release(const Range& range);

  mutable std::mutex mutex_;
  std::map<const std::byte*, Range> own_;  // by address
  std::weak_ptr<File> file_;               // its allocations own it
};

}  // namespace libhvd
