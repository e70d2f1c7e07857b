// One rank's ways to the ranks on other hosts that serve the same channels (stream_plan.hpp): they
// carry the data of large messages, bare, as both ends know from the call what comes when.
//
// One thread at a time. Nothing waits but turn(). What has ended a way is for others to find out
// (bridge.hpp); here it is only noticed.
#pragma once

#include "transport/lockstep.hpp"
#include "transport/stream_plan.hpp"
#include "transport/transport.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

namespace libhvd {

class Streams {
 public:
  virtual ~Streams() = default;
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  const StreamPlan& plan() const { return plan_; }
  virtual Transport transport() const = 0;

  // Sends what it can at once, the rest in turn(). The memory stays as it is until it has been due.
  virtual void send(int channel, int host, const void* data, std::size_t bytes) = 0;
  // Says where what comes next is to go. It need not be in the portions in which it was sent.
  virtual void receive(int channel, int host, void* data, std::size_t bytes) = 0;

  // Notes what is sent by now.
  virtual void mark() = 0;
  // What was sent before mark() must be on its way before a turn is over; what is sent later need
  // not. The other end must take it without waiting for us any more.
  virtual void call_due() = 0;

  // Sends and takes what it can; when that is nothing, waits for at most so long. Over when all has
  // come that was to come, and all is on its way that is due.
  virtual Lockstep::Turn turn(int most_ms) = 0;

  // In a forked child, which must not keep open or touch what it has inherited.
  virtual void close_in_child() = 0;

 protected:
  explicit Streams(StreamPlan plan) : plan_(std::move(plan)) {}

 private:
  StreamPlan plan_;
};

// Those of each lane; null: there are no other hosts.
using StreamLanes = std::array<std::shared_ptr<Streams>, kLanes>;

}  // namespace libhvd
