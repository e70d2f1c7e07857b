// How the data of a large message is divided between the connections of the ranks on several hosts:
// into channels, each of which one rank of every host serves. These ranks are connected with each
// other, channel by channel. So all ranks of a host send, and all connections carry as much.
#pragma once

#include "transport/failure.hpp"
#include "transport/step_barrier.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace libhvd {

// A value; the same on all ranks.
class StreamPlan {
 public:
  // hosts[r]: the host of rank r, by its index.
  explicit StreamPlan(std::span<const int> hosts) {
    ranks_.resize(static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1);
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      ranks_[static_cast<std::size_t>(hosts[rank])].push_back(static_cast<int>(rank));
    for (const auto& ranks : ranks_)
      channels_ = std::max(channels_, static_cast<int>(ranks.size()));
  }

  int hosts() const { return static_cast<int>(ranks_.size()); }
  // As many as the host with the most ranks has of them, and a few where that are few.
  int channels() const { return channels_; }

  const std::vector<int>& ranks_on(int host) const {
    return ranks_[static_cast<std::size_t>(host)];
  }
  int server(int channel, int host) const {
    const auto& ranks = ranks_on(host);
    return ranks[static_cast<std::size_t>(channel) % ranks.size()];
  }

 private:
  static constexpr int kLeastChannels = 2;

  std::vector<std::vector<int>> ranks_;  // by host
  int channels_ = kLeastChannels;
};

// One rank's ways to the ranks on other hosts that serve the same channels (StreamPlan): they
// carry the data of large messages, bare, as both ends know from the call what comes when.
//
// One thread at a time. Nothing waits but turn(). What has ended a way is for others to find out
// (bridge.hpp); here it is only noticed.

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
  virtual StepBarrier::Turn turn(int most_ms) = 0;

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
