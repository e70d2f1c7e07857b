// Memory or disk behind a range of a file before it is touched: else a mapping of it is a SIGBUS in
// the middle of training where there is no room.
#pragma once

#include "base/signals_blocked.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <fcntl.h>

namespace libhvd {

// Gives errno; 0: it is there. A signal may interrupt the kernel, which then gives back what it had
// got (fallocate(2), EINTR). A profiler's timer could do that again and again, so signals wait.
inline int reserve_in_file(int file, std::uint64_t begin, std::size_t bytes) {
  const SignalsBlocked blocked;
  int error = EINTR;
  while (error == EINTR)
    error = ::posix_fallocate(file, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  return error;
}

}  // namespace libhvd
