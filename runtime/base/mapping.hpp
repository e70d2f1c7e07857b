// Memory from mmap with one owner, and the pages that it comes in.
#pragma once

#include <cstddef>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace libhvd {

// Offsets of mappings, and addresses, are multiples of this: 4 KiB on most systems, 64 KiB on POWER
// and on some of aarch64.
inline std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

inline std::size_t whole_pages(std::size_t bytes, std::size_t page = page_bytes()) {
  return (bytes + page - 1) / page * page;
}

class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, std::size_t size) : address_(address), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (address_ != nullptr) ::munmap(address_, size_);
  }

  std::byte* data() const { return static_cast<std::byte*>(address_); }
  std::size_t size() const { return size_; }

  // Puts it over `place`, a mapping of the same size, which then is this one. Nothing of what lies
  // there is kept. False: not done, errno says why.
  bool move_over(std::byte* place) {
    void* const moved = ::mremap(address_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (moved == MAP_FAILED) return false;
    address_ = moved;
    return true;
  }
  // The caller is its owner from here on.
  void release() { address_ = nullptr; }

 private:
  void* address_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace libhvd
