// What this host's ranks publish and look up by PMIx. The launcher keeps the values: see
// job/published_names.hpp.
//
// The PMIx server owns it, on the agent's loop thread. It uses nothing of libpmix. A request that
// fails is answered with one of PMIx's errors.
#pragma once

#include "agent/pmix_fences.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "protocol/pmix_messages.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace hvdrun {

class PmixNames {
 public:
  // Called once, on the loop's thread. The values live during the call.
  using Answer =
      std::function<void(std::int32_t status, const std::vector<PublishedValue>& values)>;

  PmixNames(const EventLoop& loop, PmixSend send) : loop_(loop), send_(std::move(send)) {}

  // Sends a request to the launcher; its number is chosen here. `timeout`: nullopt for no limit.
  void ask(NamesRequest request, std::optional<std::chrono::seconds> timeout, Answer answer);

  // Handles a names_answer of the launcher. Error: it is malformed, or answers no request of this
  // host.
  Result<void> on_answer(std::string_view payload);

 private:
  struct Open {
    Answer answer;
    std::unique_ptr<Timer> timer;  // null without a time limit
  };

  const EventLoop& loop_;
  PmixSend send_;
  std::uint32_t next_number_ = 0;
  std::map<std::uint32_t, Open> open_;  // by number
};

}  // namespace hvdrun
