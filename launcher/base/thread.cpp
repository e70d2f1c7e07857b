#include "base/thread.hpp"

#include <csignal>
#include <system_error>
#include <utility>

#include <pthread.h>

namespace hvdrun {

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
