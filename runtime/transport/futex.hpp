// futex(2) on words that processes share. Any thread. Errors are ignored: a wait that ends early is
// like one that was woken, and the caller looks at the word again.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace libhvd {

// Sleeps while the word has this value, for `most_ns` at most. It is not the private kind of futex,
// because processes share the word.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, long most_ns) {
  constexpr long kSecond = 1'000'000'000;
  const timespec timeout{most_ns / kSecond, most_ns % kSecond};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace libhvd
