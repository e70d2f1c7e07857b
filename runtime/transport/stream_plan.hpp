// How the data of a large message is divided between the connections of the ranks on several hosts:
// into channels. One rank of each host serves a channel, and the ranks that serve the same channel
// are connected with each other. So all ranks of a host send, and all connections carry the same
// amount. A value, the same on all ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace libhvd {

class StreamPlan {
 public:
  // hosts[r]: the index of rank r's host.
  explicit StreamPlan(std::span<const int> hosts) {
    ranks_.resize(static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1);
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      ranks_[static_cast<std::size_t>(hosts[rank])].push_back(static_cast<int>(rank));
    for (const auto& ranks : ranks_)
      channels_ = std::max(channels_, static_cast<int>(ranks.size()));
  }

  int hosts() const { return static_cast<int>(ranks_.size()); }
  // Returns the number of ranks on the host with the most ranks, but kLeastChannels at least.
  int channels() const { return channels_; }

  const std::vector<int>& ranks_on(int host) const {
    return ranks_[static_cast<std::size_t>(host)];
  }
  // Returns the rank that serves the channel on that host.
  int server(int channel, int host) const {
    const auto& ranks = ranks_on(host);
    return ranks[static_cast<std::size_t>(channel) % ranks.size()];
  }

 private:
  static constexpr int kLeastChannels = 2;

  std::vector<std::vector<int>> ranks_;  // by host
  int channels_ = kLeastChannels;
};

}  // namespace libhvd
