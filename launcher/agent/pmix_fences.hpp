// This host's part in the job's PMIx fences that span several hosts.
//
// Owned by the PMIx server, on the agent's loop's thread; knows nothing of libpmix. What the local
// ranks bring to a fence goes to the launcher, which answers when all hosts have come. A fence
// whose ranks are all here never leaves the host.
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

// How a PMIx server's frames get to the launcher.
using PmixSend =
    std::function<void(FrameType type, std::uint32_t destination, std::string_view payload)>;

// Called once, on the loop's thread. `status` is one of PMIx's; `data` lives during the call.
using PmixAnswer = std::function<void(std::int32_t status, std::string_view data)>;

// All local ranks of a fence have come to it.
struct FenceCall {
  std::vector<std::uint32_t> ranks;  // of all hosts, ascending; none: all of the job
  std::int32_t status = 0;           // of this host's part
  std::string_view data;
  std::optional<std::chrono::seconds> timeout;
  PmixAnswer answer;
};

class PmixFences {
 public:
  PmixFences(const EventLoop& loop, PmixSend send) : loop_(loop), send_(std::move(send)) {}

  void set_job(const PmixJob& job);

  // Answers at once when no other host takes part. Hosts must call in the same order for the same
  // ranks; libpmix sees to that, since ranks come to their next fence only after this one.
  void join(FenceCall call);

  // A fence_result of the launcher. Error: it does not fit its form.
  Result<void> on_result(std::string_view payload);

 private:
  struct Open {
    PmixAnswer answer;
    std::unique_ptr<Timer> timer;  // where there is a time limit
  };

  std::vector<std::uint32_t> hosts_of(const std::vector<std::uint32_t>& ranks) const;
  std::unique_ptr<Timer> limit(std::chrono::seconds timeout, const std::string& key);

  const EventLoop& loop_;
  PmixSend send_;
  std::uint32_t own_host_ = 0;
  std::size_t host_count_ = 0;
  std::vector<std::uint32_t> host_of_;                               // by rank
  std::map<std::vector<std::uint32_t>, std::uint32_t> next_number_;  // by ranks
  std::map<std::string, Open, std::less<>> open_;                    // by key
};

}  // namespace hvdrun
