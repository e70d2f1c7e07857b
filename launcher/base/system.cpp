#include "base/system.hpp"

#include "common/system.hpp"
#include "common/text.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

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

std::string random_hex(std::size_t bytes) {
  std::vector<std::uint8_t> raw(bytes);
  if (!fill_random(raw)) std::abort();
  return to_hex(raw);
}

Result<std::thread> start_thread(const std::string& does, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started;
  try {
    started = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    started = fail_errno("cannot start the thread that " + does, error.code().value());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace hvdrun
