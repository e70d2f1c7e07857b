#include "transport/doorbell.hpp"

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace libhvd {

Result<Doorbell> Doorbell::inside() {
  Fd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd) return fail_errno("cannot make an eventfd", errno);
  return Doorbell(std::move(fd));
}

Result<Doorbell> Doorbell::create(const std::string& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) return fail_errno("cannot make a FIFO as " + path, errno);
  return open(path);
}

// Opens it for reading and writing at once, for which Linux does not wait (fifo(7)).
Result<Doorbell> Doorbell::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return fail_errno("cannot open " + path, errno);
  return Doorbell(std::move(fd));
}

void Doorbell::ring() const {
  const std::uint64_t once = 1;  // an eventfd takes eight bytes
  [[maybe_unused]] const auto written = ::write(fd_.get(), &once, sizeof once);
}

void Doorbell::drain() const {
  std::uint64_t rung[64];
  while (::read(fd_.get(), rung, sizeof rung) == sizeof rung) {
  }
}

}  // namespace libhvd
