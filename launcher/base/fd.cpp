#include "base/fd.hpp"

#include <cerrno>

#include <fcntl.h>

namespace hvdrun {

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<void> set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return fail_errno("cannot make a descriptor non-blocking", errno);
  return {};
}

}  // namespace hvdrun
