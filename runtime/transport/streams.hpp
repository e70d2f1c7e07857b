// One rank's connections to the ranks on other hosts that serve the same channels (StreamPlan).
// They carry the data of large messages without any framing, because both ends know from the call
// what arrives when.
//
// One thread at a time. Only turn() waits. A lost connection is reported by turn(); why it was lost
// is found out elsewhere (bridge.hpp).
#pragma once

#include "transport/segment_layout.hpp"
#include "transport/step_barrier.hpp"
#include "transport/stream_plan.hpp"

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

  // Sends what it can at once, the rest in turn(). The memory must stay unchanged until a turn is
  // over in which it was due.
  virtual void send(int channel, int host, const void* data, std::size_t bytes) = 0;
  // Says where to put the next bytes of a connection. Their portions may differ from those that
  // were sent.
  virtual void receive(int channel, int host, void* data, std::size_t bytes) = 0;

  // Marks what has been sent so far.
  virtual void mark() = 0;
  // Makes due what was sent before mark(): it must be on its way before a turn is over. What was
  // sent later need not be. The other end must take what is due without waiting for this one.
  virtual void call_due() = 0;

  // Sends and receives what it can. If it can do neither, waits for `most_ms` at most. It is over
  // when all that is to be received has arrived, and all that is due is on its way.
  virtual StepBarrier::Turn turn(int most_ms) = 0;

  // Call it in a forked child, which must not keep open or use what it has inherited.
  virtual void close_in_child() = 0;

 protected:
  explicit Streams(StreamPlan plan) : plan_(std::move(plan)) {}

 private:
  StreamPlan plan_;
};

// The streams of each lane; null if there are no other hosts.
using StreamLanes = std::array<std::shared_ptr<Streams>, kLanes>;

}  // namespace libhvd
