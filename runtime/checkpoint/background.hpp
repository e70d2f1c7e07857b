// Runs one task at a time on a thread of its own that gives way to training: it has a low priority
// and blocks all signals. It inherits the cores that its starter is bound to.
//
// One owner; start() and wait() from one thread at a time.
#pragma once

#include "base/error.hpp"

#include <functional>
#include <optional>
#include <thread>

namespace libhvd::checkpoint {

class Background {
 public:
  Background() = default;
  ~Background() { static_cast<void>(wait()); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Starts a task. Call wait() first: nothing may be running. What `work` throws becomes an error
  // of wait(). Error: no thread can be started.
  Result<void> start(std::function<Result<void>()> work);

  // Waits for the task and returns its outcome, once: after that, or if no task was started, it
  // returns success.
  Result<void> wait();

  // Returns whether a task was started that wait() has not waited for.
  bool running() const { return thread_.joinable(); }

 private:
  std::thread thread_;
  std::optional<Error> error_;  // the thread's, until it is joined
};

}  // namespace libhvd::checkpoint
