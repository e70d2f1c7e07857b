#include "collective/call_order.hpp"

#include <algorithm>

namespace libhvd {
namespace {

// The lowest bits of a number are the communicator, so that no two communicators get the same one.
constexpr int kCommunicatorBits = 24;

}  // namespace

std::uint64_t CallOrder::propose(std::uint32_t communicator) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = (++clock_ << kCommunicatorBits) | communicator;
  numbers_.insert(number);
  return number;
}

void CallOrder::decide(std::uint64_t proposal, std::uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    numbers_.erase(proposal);
    numbers_.insert(number);
    clock_ = std::max(clock_, number >> kCommunicatorBits);
  }
  changed_.notify_all();
}

bool CallOrder::comes_within(std::chrono::milliseconds time, std::uint64_t number) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return *numbers_.begin() == number; });
}

void CallOrder::end(std::uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    numbers_.erase(number);
  }
  changed_.notify_all();
}

}  // namespace libhvd
