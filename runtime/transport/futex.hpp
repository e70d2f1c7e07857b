// futex(2) on words that processes share.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace libhvd {

// Sleeps while the word has this value, at most so long. Not the private kind of futex: the word is
// shared between processes.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, long most_ns) {
  const timespec patience{0, most_ns};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &patience, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace libhvd
