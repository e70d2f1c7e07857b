// Signals that are remembered instead of ending the process.
#pragma once

#include "base/result.hpp"

#include <csignal>
#include <map>
#include <mutex>

namespace libhvd {

// Handlers belong to the process, so there is one at a time; what came is forgotten with it. From
// any thread.
class SignalWatch {
 public:
  SignalWatch() = default;
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  // Restores the handlers that were there before.
  ~SignalWatch();

  // Error: a signal that cannot be caught, that is a crash, or that does not exist.
  Result<void> watch(int signum);

  // The ranks have agreed to stop on this signal. It may reach some of them only after that, when
  // they no longer watch: where it would end the process then, it is ignored. A second Ctrl-C still
  // does.
  void agreed(int signum);

  // The highest watched signal that has come; 0: none.
  static int came();

 private:
  std::mutex mutex_;
  std::map<int, struct sigaction> before_;
};

}  // namespace libhvd
