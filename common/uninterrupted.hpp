// Makes a system call again for as long as a signal interrupts it. For any thread.
#pragma once

#include <cerrno>

namespace common {

// `call` returns -1 and sets errno if it fails, as open(2) and read(2) do. A file system over a
// network may interrupt both.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace common
