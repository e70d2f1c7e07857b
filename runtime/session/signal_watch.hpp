// Remembers signals instead of letting them end the process (hvd_watch_signal).
//
// Signal handlers belong to the process, so only one SignalWatch may exist at a time. Any thread.
#pragma once

#include "base/error.hpp"

#include <csignal>
#include <map>
#include <mutex>

namespace libhvd {

class SignalWatch {
 public:
  SignalWatch() = default;
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  // Restores the handlers from before, and forgets the signals that have arrived.
  ~SignalWatch();

  // Watches a signal from now on; SIGINT only once. Error: the signal cannot be caught, is that of
  // a crash, or does not exist.
  Result<void> watch(int signum);

  // Notes that the ranks have agreed to stop on this signal. It may reach some ranks only when they
  // no longer watch. So if it would end the process then, the destructor ignores it. A second
  // Ctrl-C still ends the process.
  void set_agreed(int signum);

  // Returns the highest watched signal that has arrived; 0 if none has.
  static int highest_arrived();

 private:
  std::mutex mutex_;
  std::map<int, struct sigaction> before_;
};

}  // namespace libhvd
