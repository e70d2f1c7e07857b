#include "bootstrap/agent_bootstrap.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace libhvd {

Result<std::unique_ptr<AgentBootstrap>> AgentBootstrap::open(MemberLink& link,
                                                             const MemberCome& come,
                                                             std::chrono::milliseconds timeout) {
  HVD_TRY(auto go, link.come(come, Deadline(timeout)));
  if (!go) return std::unique_ptr<AgentBootstrap>();
  return std::unique_ptr<AgentBootstrap>(new AgentBootstrap(link, std::move(*go), timeout));
}

AgentBootstrap::AgentBootstrap(MemberLink& link, GenerationGo go, std::chrono::milliseconds timeout)
    : link_(link), go_(std::move(go)), timeout_(timeout) {
  const auto own =
      std::find_if(go_.ranks.begin(), go_.ranks.end(),
                   [&link](const GenerationRank& one) { return one.member == link.member(); });
  const auto numbers = numbers_in(go_, static_cast<std::uint32_t>(own - go_.ranks.begin()));
  info_.rank = static_cast<int>(numbers.rank);
  info_.size = static_cast<int>(numbers.size);
  info_.local_rank = static_cast<int>(numbers.local_rank);
  info_.local_size = static_cast<int>(numbers.local_size);
  info_.node_rank = static_cast<int>(numbers.node_rank);
  info_.node_count = static_cast<int>(numbers.node_count);
}

Result<std::vector<std::string>> AgentBootstrap::exchange(const std::string& own) {
  if (exchanges_ == kLastExchange)
    return fail(HVD_ERROR_UNSUPPORTED,
                "the wire-up of a generation has " + std::to_string(kLastExchange) + " exchanges");
  return link_.exchange(++exchanges_, own, Deadline(timeout_));
}

}  // namespace libhvd
