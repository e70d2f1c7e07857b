// futex(2) on words that processes share.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>
#include <string>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace libhvd {

// Sleeps while the word has this value, at most so long. Not the private kind of futex: the word is
// shared between processes.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, long most_ns) {
  const timespec timeout{0, most_ns};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// What wakes a host's bridge out of poll(2) when a rank of the host has something for it: a FIFO
// beside the segment's file that every rank there has open, or, for threads, an eventfd.
//
// Any thread may ring. Bytes carry no meaning.

class Doorbell {
 public:
  // For threads of one process.
  static Result<Doorbell> inside();

  // A new FIFO (0600); the caller removes its name.
  static Result<Doorbell> create(const std::string& path);
  static Result<Doorbell> open(const std::string& path);

  Doorbell() = default;  // none
  explicit operator bool() const { return static_cast<bool>(fd_); }

  // Never waits. Full is as good as rung. With no bridge left it does nothing: we ourselves have
  // the reading end open too, so there is no SIGPIPE.
  void ring() const;

  // Readable when rung.
  int fd() const { return fd_.get(); }
  void drain() const;

 private:
  explicit Doorbell(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace libhvd
