// The launcher's part in PMIx over several hosts: it gathers the hosts' parts of each fence,
// forwards modex requests and answers between agents, and keeps what ranks publish.
//
// A value without descriptors or clock, for its owner's thread. A lost agent blocks no other:
// fences that wait for it fail on all hosts, and requests to it are answered with an error. It
// holds what hosts have sent to fences that are not complete.
#pragma once

#include "base/result.hpp"
#include "job/published_names.hpp"
#include "protocol/frame.hpp"
#include "protocol/link.hpp"
#include "protocol/pmix_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

class PmixRouter {
 public:
  // Sends a frame to the agent of a host that is not lost.
  using Send =
      std::function<void(std::size_t host_index, FrameType type, const SharedPayload& payload)>;

  PmixRouter(std::size_t host_count, Send send);

  // Takes a frame of PMIx from the agent of a host. Error: it violates the protocol, or a fence has
  // more data than a frame can hold. The job cannot continue then.
  Result<void> take(std::size_t host_index, const Frame& frame);

  // Marks a host as lost: it sends no more, and nothing is sent to it.
  void host_lost(std::size_t host_index);

 private:
  struct Part {
    std::uint32_t host = 0;
    bool came = false;
    std::string data;
  };
  // A fence is created by its first part. A failed fence is kept until all its hosts have sent
  // their parts or are lost, and have got the failure: so the hosts' numbers of fences stay the
  // same.
  struct Fence {
    std::vector<Part> parts;  // by host index
    std::int32_t status = kPmixSuccess;
    std::size_t bytes = 0;  // of all data received
  };
  using Fences = std::map<std::string, Fence, std::less<>>;
  using Request = std::pair<std::uint32_t, std::uint32_t>;  // who asks, for which rank

  Result<void> on_fence(std::uint32_t host, const FenceMessage& message);
  void on_fence_expired(std::string_view key);
  Result<void> on_modex_request(std::uint32_t host, const Frame& frame);
  Result<void> on_modex_answer(std::uint32_t host, const Frame& frame);

  Result<Fences::iterator> find_or_begin(const FenceMessage& message);
  bool all_came_or_lost(const Fence& fence) const;
  void fail_fence(Fences::iterator at, std::int32_t status);
  Result<void> complete(Fences::iterator at);
  void send_to_those_who_came(const Fence& fence, const SharedPayload& result) const;
  void refuse(const ModexRequest& request, std::int32_t status) const;
  bool reachable(std::size_t host) const { return host < lost_.size() && !lost_[host]; }

  std::vector<bool> lost_;  // by host index
  Send send_;
  Fences fences_;                          // by key
  std::map<Request, std::uint32_t> open_;  // modex requests, with the host that was asked
  PublishedNames names_;
};

}  // namespace hvdrun
