// One piece of work at a time on a thread of its own, which gives way to training: a low
// priority, no signals. It inherits the cores that its starter is bound to.
//
// One owner; start() and wait() from one thread at a time.
#pragma once

#include "base/result.hpp"

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

  // Only when nothing runs: wait() first. What `work` throws is an error too. Error: no thread.
  Outcome start(std::function<Outcome()> work);

  // The outcome of what was started last; asked again, or when nothing was: Done.
  Outcome wait();

  bool running() const { return thread_.joinable(); }

 private:
  std::thread thread_;
  std::optional<Error> error_;  // the thread's, until it is joined
};

}  // namespace libhvd::checkpoint
