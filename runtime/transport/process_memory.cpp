#include "transport/process_memory.hpp"

#include "common/system.hpp"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace libhvd {

Result<std::shared_ptr<ProcessMemory::File>> ProcessMemory::make_file() {
  std::array<std::uint8_t, sizeof(File::number)> random{};
  if (!common::fill_random(random)) return fail_errno("there are no random bytes", errno);
  HVD_TRY(MemoryFile memory, MemoryFile::create());
  const auto number = std::bit_cast<std::uint64_t>(random) | 1;
  if (::pwrite(memory.get(), &number, sizeof number, 0) != ssize_t{sizeof number})
    return fail_errno("cannot write to shared memory", errno);
  return std::make_shared<File>(File{std::move(memory), number, ::getpid(), page_bytes()});
}

// The reservation may take long, so it is done without the mutex.
Result<ProcessMemory::Range> ProcessMemory::reserve(const std::shared_ptr<Segment>& segment,
                                                    std::size_t bytes) {
  if (segment->memory_is_private()) return reserve_in(segment, bytes);
  const std::size_t size = whole_pages(bytes);
  Range range;
  {
    const std::lock_guard lock(mutex_);
    range.file = file_.lock();
    // A forked child has its parent's file, in which the parent reserves ranges too.
    if (range.file == nullptr || range.file->pid != ::getpid()) {
      auto made = make_file();
      if (!made.ok()) return reserve_in(segment, bytes);
      range.file = *made;
      file_ = *made;
    }
    range.begin = std::exchange(range.file->end, range.file->end + size);
  }
  if (const int refused = range.file->memory.reserve(range.begin, size); refused != 0) {
    release_range(range.file->memory.get(), range.begin, size);  // it may have got a part
    return fail_errno("there is no memory for " + std::to_string(size / 1024) +
                          " KiB, which the buffers of a rank need",
                      refused);
  }
  auto mapping = map_shared(range.file->memory.get(), range.begin, size);
  if (!mapping.ok()) {
    release_range(range.file->memory.get(), range.begin, size);
    return mapping.error();
  }
  range.mapping = std::move(*mapping);
  return range;
}

Result<ProcessMemory::Range> ProcessMemory::reserve_in(const std::shared_ptr<Segment>& segment,
                                                       std::size_t bytes) {
  HVD_TRY(const std::uint64_t begin, segment->reserve_range(bytes));
  auto mapping = segment->map_range(begin, bytes);
  if (!mapping.ok()) {
    segment->release_range(begin, bytes);
    return mapping.error();
  }
  return Range{nullptr, segment, begin, std::move(*mapping)};
}

// A forked child leaves its parent's memory to the parent.
void ProcessMemory::release(const Range& range) {
  if (range.segment) {
    range.segment->release_range(range.begin, range.mapping.size());
  } else if (range.file->pid == ::getpid()) {
    release_range(range.file->memory.get(), range.begin, range.mapping.size());
  }
}

Result<std::byte*> ProcessMemory::allocate(const std::shared_ptr<Segment>& segment,
                                           std::size_t bytes) {
  HVD_TRY(Range range, reserve(segment, bytes));
  std::byte* const memory = range.mapping.data();
  const std::lock_guard lock(mutex_);
  own_.emplace(memory, std::move(range));
  return memory;
}

void ProcessMemory::free(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(memory);
  if (found == own_.end()) return;
  release(found->second);
  own_.erase(found);
}

Result<void> ProcessMemory::adopt(const std::shared_ptr<Segment>& segment, std::byte* memory,
                                  std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto after = own_.lower_bound(memory + bytes);
    if (after != own_.begin()) {
      const auto& [first, range] = *std::prev(after);
      if (first + range.mapping.size() > memory)
        return fail(HVD_ERROR_INVALID_ARGUMENT, "a part of it is shared already");
    }
  }
  HVD_TRY(Range range, reserve(segment, bytes));
  std::memcpy(range.mapping.data(), memory, bytes);
  if (!range.mapping.move_over(memory)) {
    const int refused = errno;
    release(range);
    return fail_errno("cannot share the memory", refused);
  }
  const std::lock_guard lock(mutex_);
  own_.emplace(memory, std::move(range));
  return {};
}

Result<void> ProcessMemory::disown(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(memory);
  if (found == own_.end()) return {};
  Range& range = found->second;
  const std::size_t bytes = range.mapping.size();
  void* const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return fail_errno("no memory for a copy of it", errno);
  Mapping copy(address, bytes);
  std::memcpy(copy.data(), memory, bytes);
  if (!copy.move_over(memory)) return fail_errno("cannot put a copy in its place", errno);
  copy.release();
  release(range);
  range.mapping.release();  // the copy has replaced it
  own_.erase(found);
  return {};
}

std::optional<SharedLocation> ProcessMemory::find(const Segment& segment, const void* buffer,
                                                  std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(buffer);
  const std::lock_guard lock(mutex_);
  const auto after = own_.upper_bound(begin);
  if (after == own_.begin()) return std::nullopt;
  const auto& [first, range] = *std::prev(after);
  const auto offset = static_cast<std::size_t>(begin - first);
  const std::size_t size = range.mapping.size();
  if (offset > size || bytes > size - offset) return std::nullopt;
  if (range.file == nullptr) {
    if (range.segment.get() != &segment) return std::nullopt;
    return SharedLocation{0, range.begin, size, offset, 0, 0};
  }
  if (segment.memory_is_private()) return std::nullopt;
  return SharedLocation{range.file->number,      range.begin, size, offset, range.file->pid,
                        range.file->memory.get()};
}

Result<Mapping> ProcessMemory::map(const SharedLocation& place) {
  HVD_TRY(const MemoryFile file, MemoryFile::open_in(place.pid, place.descriptor));
  std::uint64_t number = 0;
  if (::pread(file.get(), &number, sizeof number, 0) != ssize_t{sizeof number} ||
      number != place.file)
    return fail(HVD_ERROR_SYSTEM, "process " + std::to_string(place.pid) +
                                      " is another one here, or has closed its shared memory");
  return map_shared(file.get(), place.allocation, place.allocation_bytes);
}

}  // namespace libhvd
