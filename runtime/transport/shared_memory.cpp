#include "transport/shared_memory.hpp"

namespace libhvd {

// An allocation that is mapped here may have been freed since. Its mapping then only occupies
// addresses, and is dropped some time after there are too many. Programs use their buffers in the
// same order again and again, so the oldest mapping is the one that is needed next. Therefore a
// random one is dropped.
Result<std::shared_ptr<std::byte>> SharedMemory::map(const SharedLocation& place) {
  const Allocation allocation{place.file, place.allocation};
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = foreign_at_.try_emplace(allocation, foreign_.size());
  if (is_new) {
    auto mapping = place.file == 0 ? segment_->map_range(place.allocation, place.allocation_bytes)
                                   : ProcessMemory::map(place);
    if (!mapping.ok()) {
      foreign_at_.erase(found);
      return mapping.error();
    }
    Foreign made{allocation, std::make_shared<Mapping>(std::move(*mapping))};
    if (foreign_.size() < most_mapped_) {
      foreign_.push_back(std::move(made));
    } else {
      found->second = random_() % foreign_.size();
      foreign_at_.erase(foreign_[found->second].allocation);
      foreign_[found->second] = std::move(made);
    }
  }
  const std::shared_ptr<Mapping>& mapping = foreign_[found->second].mapping;
  return std::shared_ptr<std::byte>(mapping, mapping->data() + place.offset);
}

}  // namespace libhvd
