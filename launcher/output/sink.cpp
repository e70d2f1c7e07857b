#include "output/sink.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace hvdrun {

namespace {

// The most that one pump() writes, so that others get their turn on the loop.
constexpr std::size_t kPumpAtMost = 4 * 1024 * 1024;
// A larger pipe saves a switch to its reader for every 64 KiB. Best effort: the kernel's limit for
// ordinary users is 1 MiB (pipe(7)).
constexpr int kPipeCapacity = 512 * 1024;

// Returns whether it is the master side of a pseudo-terminal. Opening that anew would make another
// terminal.
bool is_terminal_master(const struct stat& status) {
  constexpr unsigned kTtyAuxMajor = 5, kPtmxMinor = 2;
  return major(status.st_rdev) == kTtyAuxMajor && minor(status.st_rdev) == kPtmxMinor;
}

bool can_take_more(int fd) {
  pollfd entry{fd, POLLOUT, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

Sink::Sink(int fd, std::string name) : fd_(fd), name_(std::move(name)) {
  choose_way();
}

void Sink::choose_way() {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return;
  terminal_ = S_ISCHR(status.st_mode) && ::isatty(fd_) == 1;
  file_ = S_ISREG(status.st_mode);
  if (S_ISSOCK(status.st_mode)) {
    way_ = Way::socket;
    return;
  }
  if (!terminal_ && !S_ISFIFO(status.st_mode)) return;
  way_ = Way::polled;
  if (is_terminal_master(status)) return;
  const std::string path = fmt::format("/proc/self/fd/{}", fd_);
  fresh_.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fresh_) return;  // also a pipe without a reader (ENXIO, fifo(7)), which write(2) reports
  way_ = Way::nonblocking;
  if (S_ISFIFO(status.st_mode) && ::fcntl(fresh_.get(), F_GETPIPE_SZ) < kPipeCapacity)
    ::fcntl(fresh_.get(), F_SETPIPE_SZ, kPipeCapacity);
}

ssize_t Sink::write_some(std::size_t count) {
  switch (way_) {
    case Way::socket:
      return ::send(fd_, queue_.data(), count, MSG_DONTWAIT | MSG_NOSIGNAL);
    case Way::nonblocking:
      return ::write(fresh_.get(), queue_.data(), count);
    case Way::plain:
      return ::write(fd_, queue_.data(), count);
    case Way::polled:
      break;
  }
  if (!can_take_more(fd_)) {
    errno = EAGAIN;
    return -1;
  }
  return ::write(fd_, queue_.data(), std::min<std::size_t>(count, PIPE_BUF));
}

Sink::State Sink::pump() {
  std::size_t budget = kPumpAtMost;
  while (!queue_.empty() && !failed_) {
    if (budget == 0) return State::more;
    const ssize_t written = write_some(std::min(queue_.size(), budget));
    if (written > 0) in_line_ = queue_.data()[written - 1] != '\n';
    if (written >= 0) {
      queue_.drop(static_cast<std::size_t>(written));
      budget -= static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      return State::blocked;
    } else if (errno != EINTR) {
      give_up(errno);
    }
  }
  dropped_ += queue_.size();
  queue_.clear();
  return State::empty;
}

void Sink::try_again() {
  pump();
  failed_ = false;
  if (in_line_) queue_.append("\n");
}

void Sink::give_up(int errno_value) {
  failed_ = true;
  if (error_) return;
  if (errno_value == EPIPE) {
    error_ = Error{fmt::format("the reader of {} has gone", name_), kExitSignalBase + SIGPIPE};
    return;
  }
  auto failure = fail_errno(fmt::format("cannot write {}", name_), errno_value);
  failure.message += "; what the ranks print there is lost from here on";
  error_ = std::move(failure);
}

int Sink::columns() const {
  const pid_t foreground = ::tcgetpgrp(wait_fd());  // -1: not the terminal of this session
  if (foreground != -1 && foreground != ::getpgrp()) return 0;
  winsize size{};
  return ::ioctl(wait_fd(), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::optional<std::string> Sink::loss() const {
  if (!error_ || dropped_ == 0) return std::nullopt;
  return fmt::format("{} bytes for {} were lost: {}", dropped_, name_, error_->message);
}

bool same_place(int fd, int other) {
  struct stat one {
  }, two{};
  if (::fstat(fd, &one) != 0 || ::fstat(other, &two) != 0) return false;
  return one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

bool is_pipe(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

}  // namespace hvdrun
