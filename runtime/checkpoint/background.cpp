#include "checkpoint/background.hpp"

#include <exception>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace libhvd::checkpoint {
namespace {

// Low enough to give way to training, and still a tenth of a core that others keep busy: whoever
// waits for the writing should not wait for ever. It cannot be raised again when somebody does.
constexpr int kPriority = 10;

Outcome run(const std::function<Outcome()>& work) {
  // Linux gives each thread a nice value of its own.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kPriority);
  try {
    return work();
  } catch (const std::exception& exception) {
    return fail(HVD_ERROR_SYSTEM, std::string("a checkpoint was not written: ") + exception.what());
  }
}

}  // namespace

Outcome Background::start(std::function<Outcome()> work) {
  error_.reset();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  Outcome outcome = Done{};
  try {
    thread_ = std::thread([this, work = std::move(work)] {
      if (Outcome done = run(work); !done.ok()) error_ = std::move(done.error());
    });
  } catch (const std::system_error& error) {
    outcome = fail_errno("cannot start a thread that writes the checkpoint", error.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return outcome;
}

Outcome Background::wait() {
  if (thread_.joinable()) thread_.join();
  if (auto error = std::exchange(error_, std::nullopt)) return std::move(*error);
  return Done{};
}

}  // namespace libhvd::checkpoint
