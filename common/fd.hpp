// A file descriptor with one owner.
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

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // The caller owns it from here on.
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Returns whether a call on a non-blocking descriptor that set this errno is to be tried again.
inline bool would_block(int errno_value) {
  return errno_value == EAGAIN || errno_value == EWOULDBLOCK || errno_value == EINTR;
}

// Memory or disk behind a range of a file before it is touched: else a mapping of it is a SIGBUS in
// the middle of training where there is no room.

// Gives errno; 0: it is there. A signal may interrupt the kernel, which then gives back what it had
// got (fallocate(2), EINTR). A profiler's timer could do that again and again, so signals wait.
inline int reserve_in_file(int file, std::uint64_t begin, std::size_t bytes) {
  const SignalsBlocked blocked;
  int error = EINTR;
  while (error == EINTR)
    error = ::posix_fallocate(file, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  return error;
}

// Memory from mmap with one owner, and the pages that it comes in.

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

// How many files this process may have open (getrlimit(2), RLIMIT_NOFILE).

// Makes room for so many more than are open now: raises the soft limit where it is too low, as far
// as the hard one. Whoever needs more than that gets EMFILE when it comes to it, as without this.
void make_room_for_descriptors(std::size_t more);

}  // namespace common
