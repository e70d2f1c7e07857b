#include "transport/shared_memory.hpp"

#include <cerrno>
#include <cstring>
#include <iterator>

namespace libhvd {

Result<std::byte*> SharedMemory::allocate(std::size_t bytes) {
  HVD_TRY(const std::uint64_t begin, segment_->reserve_range(bytes));
  auto mapping = segment_->map_range(begin, bytes);
  if (!mapping.ok()) {
    segment_->release_range(begin, bytes);
    return mapping.error();
  }
  std::byte* const memory = mapping->data();
  const std::lock_guard lock(mutex_);
  own_.emplace(memory, Range{begin, std::move(*mapping)});
  return memory;
}

void SharedMemory::free(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(memory);
  if (found == own_.end()) return;
  segment_->release_range(found->second.begin, found->second.mapping.size());
  own_.erase(found);
}

Result<void> SharedMemory::adopt(std::byte* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto after = own_.lower_bound(memory + bytes);
  if (after != own_.begin()) {
    const auto& [first, range] = *std::prev(after);
    if (first + range.mapping.size() > memory)
      return fail(HVD_ERROR_INVALID_ARGUMENT, "a part of it is shared already");
  }
  HVD_TRY(const std::uint64_t begin, segment_->reserve_range(bytes));
  auto mapping = segment_->map_range(begin, bytes);
  Result<void> done;
  if (!mapping.ok()) {
    done = mapping.error();
  } else {
    std::memcpy(mapping->data(), memory, bytes);
    if (!mapping->move_over(memory)) done = fail_errno("cannot share the memory", errno);
  }
  if (done.ok()) {
    own_.emplace(memory, Range{begin, std::move(*mapping)});
  } else {
    segment_->release_range(begin, bytes);
  }
  return done;
}

Result<void> SharedMemory::disown(std::byte* memory) {
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
  range.mapping.release();  // the copy has replaced it
  segment_->release_range(range.begin, bytes);
  own_.erase(found);
  return {};
}

std::optional<SharedLocation> SharedMemory::find(const void* buffer, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(buffer);
  const std::lock_guard lock(mutex_);
  const auto after = own_.upper_bound(begin);
  if (after == own_.begin()) return std::nullopt;
  const auto& [first, range] = *std::prev(after);
  const auto offset = static_cast<std::size_t>(begin - first);
  const std::size_t size = range.mapping.size();
  if (offset > size || bytes > size - offset) return std::nullopt;
  return SharedLocation{range.begin, size, offset};
}

// An allocation that is mapped here may have been freed since. Its mapping then only occupies
// addresses, and is dropped some time after there are too many. Programs use their buffers in the
// same order again and again, so the oldest mapping is the one that is needed next. Therefore a
// random one is dropped.
Result<std::shared_ptr<std::byte>> SharedMemory::map(const SharedLocation& place) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = foreign_at_.try_emplace(place.allocation, foreign_.size());
  if (is_new) {
    auto mapping = segment_->map_range(place.allocation, place.allocation_bytes);
    if (!mapping.ok()) {
      foreign_at_.erase(found);
      return mapping.error();
    }
    Foreign made{place.allocation, std::make_shared<Mapping>(std::move(*mapping))};
    if (foreign_.size() < most_mapped_) {
      foreign_.push_back(std::move(made));
    } else {
      found->second = random_() % foreign_.size();
      foreign_at_.erase(foreign_[found->second].begin);
      foreign_[found->second] = std::move(made);
    }
  }
  const std::shared_ptr<Mapping>& mapping = foreign_[found->second].mapping;
  return std::shared_ptr<std::byte>(mapping, mapping->data() + place.offset);
}

}  // namespace libhvd
