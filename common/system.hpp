// What the operating system gives: the name of this host, its boot, random bytes, and blocked
// signals. Any thread.
#pragma once

#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace common {

// Returns the name from gethostname(2); "localhost" if there is none.
std::string local_host_name();

// Returns an id that is new for each boot of the kernel (random(4)); "" if it cannot be read.
std::string boot_id();

// Fills up to 256 bytes with random data for secrets, from getrandom(2), which returns that many in
// one call, or from /dev/urandom if a seccomp filter refuses that call. Returns false and sets
// errno if both fail.
[[nodiscard]] bool fill_random(std::span<std::uint8_t> bytes);

// Blocks signals for this thread while the object lives. A new thread inherits the mask of its
// starter, and threads of the runtime must not run the program's signal handlers. Leaves out the
// signals of a crash, so that the program's handler for them runs (PYTHONFAULTHANDLER).
class SignalsBlocked {
 public:
  // `open`: more signals to leave out.
  explicit SignalsBlocked(std::initializer_list<int> open = {}) {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
      sigdelset(&blocked, crash);
    for (const int signal : open) sigdelset(&blocked, signal);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace common
