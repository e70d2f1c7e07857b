// One order for calls of communicators that have ranks in common. One object for each rank; any
// thread. Nothing here can fail.
//
// NCCL's kernels wait for those of the other ranks on the GPU, where the order in which they were
// enqueued is the order in which they run. If two communicators are enqueued in one order on one
// rank and in the other order on another rank, both wait for ever. With three communicators this
// happens even if no two ranks disagree. So every such call gets a number, by Skeen's algorithm for
// totally ordered multicast (K. Birman and T. Joseph, "Reliable Communication in the Presence of
// Failures", 1987): each rank proposes a number above all that it has seen, and the largest
// proposal becomes the number of the call. A rank begins a call when no other call can still get a
// smaller number.
//
// This cannot deadlock: a rank proposes a number only when it is certain that all ranks do, so a
// call waits only for calls with smaller numbers.
#pragma once

#include "base/error.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace libhvd {

// State that GPU code attaches to a communicator or to an order of calls. Its owner destroys it.
struct DeviceState {
  // Returns why results of calls that have succeeded were lost on the GPU, if no later call has
  // returned that; otherwise nullopt.
  virtual std::optional<Error> untold_loss() const { return std::nullopt; }
  DeviceState() = default;
  virtual ~DeviceState() = default;
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;
};

class CallOrder {
 public:
  // Returns a number above all that this rank has seen. No two communicators get the same number.
  // Each communicator may have at most one call in the order at a time.
  std::uint64_t propose(std::uint32_t communicator);
  // Replaces the proposal of a call by its number.
  void decide(std::uint64_t proposal, std::uint64_t number);
  // Waits for the turn of the call with this number. Returns false if it is not its turn in time.
  bool comes_within(std::chrono::milliseconds time, std::uint64_t number);
  // Removes a call that is over, or that will not take place here. `number`: its proposal before
  // decide(), its number after.
  void end(std::uint64_t number);

  // Only the call whose turn it is may use it.
  std::unique_ptr<DeviceState>& device_state() { return device_state_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t clock_ = 0;
  std::set<std::uint64_t> numbers_;  // of the calls that are not over, decided or proposed
  std::unique_ptr<DeviceState> device_state_;
};

// Holds a call's place in the order, from its proposal to its end.
class CallTurn {
 public:
  CallTurn(std::shared_ptr<CallOrder> order, std::uint32_t communicator)
      : order_(std::move(order)), number_(order_->propose(communicator)) {}
  ~CallTurn() {
    if (order_) order_->end(number_);
  }
  CallTurn(CallTurn&&) = default;
  CallTurn& operator=(CallTurn&&) = delete;

  // Returns the proposal before decide(), the number after.
  std::uint64_t number() const { return number_; }
  void decide(std::uint64_t number) {
    order_->decide(number_, number);
    number_ = number;
  }
  bool comes_within(std::chrono::milliseconds time) { return order_->comes_within(time, number_); }
  CallOrder& order() { return *order_; }

 private:
  std::shared_ptr<CallOrder> order_;  // null: moved from
  std::uint64_t number_;
};

}  // namespace libhvd
