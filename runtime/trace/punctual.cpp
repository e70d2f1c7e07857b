#include "trace/punctual.hpp"

#include "base/signals_blocked.hpp"

#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

namespace libhvd {
namespace {

// Interrupts the communicator unless it is destroyed in time.
class Alarm {
 public:
  Alarm(Communicator& communicator, std::chrono::milliseconds patience) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this, &communicator, patience] {
      std::unique_lock lock(mutex_);
      rang_ = !over_.wait_for(lock, patience, [this] { return called_off_; });
      if (rang_) communicator.interrupt();
    });
  }
  ~Alarm() { call_off(); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Whether it has rung.
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

Outcome punctual_barrier(Communicator& communicator, std::chrono::milliseconds patience) {
  try {
    Alarm alarm(communicator, patience);
    Outcome met = communicator.barrier({.name = "timeline"});
    if (!alarm.call_off()) return met;
  } catch (const std::system_error& error) {
    return fail(HVD_ERROR_SYSTEM, std::string("cannot start a thread: ") + error.what());
  }
  return fail(HVD_ERROR_TIMEOUT,
              "not all ranks have come within " + std::to_string(patience.count()) + " ms");
}

}  // namespace libhvd
