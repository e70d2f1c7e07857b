#include "trace/timed_barrier.hpp"

#include "base/thread.hpp"

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace libhvd {
namespace {

// Interrupts the communicator after a time, unless it is destroyed before. Has a thread of its own.
class Alarm {
 public:
  Alarm() = default;
  ~Alarm() { call_off(); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Call it once.
  Result<void> start(Communicator& communicator, std::chrono::milliseconds timeout) {
    HVD_TRY(thread_, start_thread("ends a barrier in time", [this, &communicator, timeout] {
              std::unique_lock lock(mutex_);
              rang_ = !over_.wait_for(lock, timeout, [this] { return called_off_; });
              if (rang_) communicator.interrupt();
            }));
    return {};
  }

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
  Alarm alarm;
  HVD_CHECK(alarm.start(communicator, timeout));
  Result<void> met = communicator.barrier({.name = "timeline"});
  if (!alarm.call_off()) return met;
  return fail(HVD_ERROR_TIMEOUT,
              "not all ranks have come within " + std::to_string(timeout.count()) + " ms");
}

}  // namespace libhvd
