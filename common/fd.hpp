// A file descriptor with one owner. One thread at a time.
#pragma once

#include <cerrno>
#include <utility>

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
  // Gives up ownership: the caller closes the descriptor.
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Returns whether a call on a non-blocking descriptor that set this errno is to be tried again. The
// kernel may lack memory for a packet (ENOBUFS, ENOMEM); the connection is whole all the same.
inline bool would_block(int errno_value) {
  return errno_value == EAGAIN || errno_value == EWOULDBLOCK || errno_value == EINTR ||
         errno_value == ENOBUFS || errno_value == ENOMEM;
}

}  // namespace common
