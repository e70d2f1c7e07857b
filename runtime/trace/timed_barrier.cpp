#include "trace/timed_barrier.hpp"

#include "common/system.hpp"

#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

namespace libhvd {
namespace {

// Interrupts the communicator after a time, unless it is destroyed before. Has a thread of its own.
class Alarm {
 public:
  Alarm(Communicator& communicator, std::chrono::milliseconds timeout) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this, &communicator, timeout] {
      std::unique_lock lock(mutex_);
      rang_ = !over_.wait_for(lock, timeout, [this] { return called_off_; });
      if (rang_) communicator.interrupt();
    });
  }
  ~Alarm() { call_off(); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Stops it. Returns whether it has interrupted the communicator.
  bool call_off() {
    {
      const std::lock_guard lock(mutex_);
      called_off_ = true;
    }
    over_.notify_one();
    if (thread_.joinable()) thread_.join();
    return rang_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool called_off_ = false;
  bool rang_ = false;
  std::thread thread_;
};

}  // namespace

Result<void> timed_barrier(Communicator& communicator, std::chrono::milliseconds timeout) {
  try {
    Alarm alarm(communicator, timeout);
    Result<void> met = communicator.barrier({.name = "timeline"});
    if (!alarm.call_off()) return met;
  } catch (const std::system_error& error) {
    return fail(HVD_ERROR_SYSTEM, std::string("cannot start a thread: ") + error.what());
  }
  return fail(HVD_ERROR_TIMEOUT,
              "not all ranks have come within " + std::to_string(timeout.count()) + " ms");
}

}  // namespace libhvd
