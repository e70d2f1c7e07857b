// This host's part in the job's PMIx fences that span several hosts. It sends the data of the local
// ranks to the launcher, which answers when all hosts have entered the fence. A fence whose ranks
// are all on this host never leaves it.
//
// The PMIx server owns it, on the agent's loop thread. It uses nothing of libpmix. A fence that
// fails is answered with one of PMIx's errors.
#pragma once

#include "agent/pmix_job.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "protocol/frame.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Sends a PMIx server's frame to the launcher.
using PmixSend =
    std::function<void(FrameType type, std::uint32_t destination, std::string_view payload)>;

// Called once, on the loop's thread. `status` is one of PMIx's; `data` lives during the call.
using PmixAnswer = std::function<void(std::int32_t status, std::string_view data)>;

// A fence that all its local ranks have entered.
struct FenceCall {
  std::vector<std::uint32_t> ranks;  // of all hosts, ascending; empty: all of the job
  std::int32_t status = 0;           // of this host's part
  std::string_view data;
  std::optional<std::chrono::seconds> timeout;
  PmixAnswer answer;
  std::string purpose = {};  // of a call that is more than a fence: "connect"
};

class PmixFences {
 public:
  PmixFences(const EventLoop& loop, PmixSend send) : loop_(loop), send_(std::move(send)) {}

  void set_job(const PmixJob& job);

  // Joins a fence, and answers when it is complete: at once if no other host takes part. For the
  // same ranks and purpose all hosts must call in the same order. libpmix ensures that, because
  // ranks enter their next fence only after this one.
  void join(FenceCall call);

  // Returns for how long ranks have waited in a fence for those of other hosts, at most.
  std::chrono::milliseconds longest_wait() const;

  // Handles a fence_result of the launcher. Error: it is malformed, or no rank here waits for it.
  Result<void> on_result(std::string_view payload);

 private:
  struct Open {
    PmixAnswer answer;
    std::unique_ptr<Timer> timer;  // null without a time limit
    EventLoop::Clock::time_point begun;
  };

  std::vector<std::uint32_t> hosts_of(const std::vector<std::uint32_t>& ranks) const;
  std::unique_ptr<Timer> limit(std::chrono::seconds timeout, const std::string& key);

  const EventLoop& loop_;
  PmixSend send_;
  std::uint32_t own_host_ = 0;
  std::size_t host_count_ = 0;
  std::vector<std::uint32_t> host_of_;                // by rank
  std::map<std::string, std::uint32_t> next_number_;  // by purpose and ranks, as a key
  std::map<std::string, Open, std::less<>> open_;     // by key
};

}  // namespace hvdrun
