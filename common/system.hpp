// The name of this host, random bytes, and threads without signals.
#pragma once

#include <csignal>
#include <cstdint>
#include <span>
#include <string>

namespace common {

// As gethostname(2) gives it; "localhost" where it gives none.
std::string local_host_name();

// Fills at most 256 bytes that nobody can guess, from getrandom(2), which gives so many in one
// piece. False: errno says why not.
[[nodiscard]] bool fill_random(std::span<std::uint8_t> bytes);

// While it lives, this thread takes no signals. Threads that the runtime starts must not run the
// program's signal handlers: a thread inherits the mask of the one that starts it.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace common
