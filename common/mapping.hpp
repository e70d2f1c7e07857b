// Mapped memory with one owner, pages, and room for a mapped file. One thread at a time for each
// object.
#pragma once

#include "common/system.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace common {

// Allocates memory or disk space for a range of a file. Returns 0 or an errno.
//
// Without this, touching a mapping of the range is a SIGBUS in the middle of training if there is
// no room. A signal may interrupt the kernel, which then frees what it has allocated so far
// (fallocate(2), EINTR). A profiler's timer could do that again and again, so signals are blocked.
inline int reserve_in_file(int file, std::uint64_t begin, std::size_t bytes) {
  const SignalsBlocked blocked;
  int error = EINTR;
  while (error == EINTR)
    error = ::posix_fallocate(file, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  return error;
}

// Returns the size of a page. Addresses and offsets of mappings are multiples of it. It is 4 KiB on
// most systems, 64 KiB on POWER and on some of aarch64.
inline std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Rounds up to whole pages.
inline std::size_t whole_pages(std::size_t bytes, std::size_t page = page_bytes()) {
  return (bytes + page - 1) / page * page;
}

// Memory from mmap(2).
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

  // Moves this mapping to `place`, the address of a mapping of the same size, whose content is
  // lost. Returns false and sets errno if that fails.
  bool move_over(std::byte* place) {
    void* const moved = ::mremap(address_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (moved == MAP_FAILED) return false;
    address_ = moved;
    return true;
  }
  // Gives up ownership: the caller unmaps the memory.
  void release() { address_ = nullptr; }

 private:
  void* address_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace common
