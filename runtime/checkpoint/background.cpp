#include "checkpoint/background.hpp"

#include "base/thread.hpp"

#include <exception>
#include <string>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

namespace libhvd::checkpoint {
namespace {

// A nice value that gives way to training, but still gets a tenth of a core that others keep busy,
// so that a wait for the writing ends. An unprivileged thread cannot lower it again for such a
// wait.
constexpr int kNice = 10;

Result<void> run_task(const std::function<Result<void>()>& work) {
  // Linux gives each thread a nice value of its own; 0 is the calling thread.
  ::setpriority(PRIO_PROCESS, 0, kNice);
  try {
    return work();
  } catch (const std::exception& exception) {
    return fail(HVD_ERROR_SYSTEM, std::string("a checkpoint was not written: ") + exception.what());
  }
}

}  // namespace

Result<void> Background::start(std::function<Result<void>()> work) {
  error_.reset();
  HVD_TRY(thread_, start_thread("writes the checkpoint", [this, work = std::move(work)] {
            if (Result<void> done = run_task(work); !done.ok()) error_ = std::move(done.error());
          }));
  return {};
}

Result<void> Background::wait() {
  if (thread_.joinable()) thread_.join();
  if (auto error = std::exchange(error_, std::nullopt)) return std::move(*error);
  return {};
}

}  // namespace libhvd::checkpoint
