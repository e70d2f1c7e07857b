#include "bootstrap/agent_bootstrap.hpp"

#include <optional>
#include <utility>

namespace libhvd {

Result<std::unique_ptr<AgentBootstrap>> AgentBootstrap::open(MemberLink& link,
                                                             const MemberCome& come,
                                                             Timeouts timeouts) {
  HVD_TRY(auto go, link.come(come, Deadline(timeouts.come)));
  if (!go) return std::unique_ptr<AgentBootstrap>();
  return std::unique_ptr<AgentBootstrap>(new AgentBootstrap(link, std::move(*go), timeouts));
}

AgentBootstrap::AgentBootstrap(MemberLink& link, GenerationGo go, Timeouts timeouts)
    : link_(link), go_(std::move(go)), timeouts_(timeouts) {
  // take_go() of the link has checked that it is there.
  const auto own = static_cast<std::uint32_t>(*rank_of(go_, link.member()));
  const auto numbers = numbers_in(go_, own);
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
  return link_.exchange(++exchanges_, own, Deadline(timeouts_.exchange));
}

Result<void> AgentBootstrap::finish() {
  while (exchanges_ < kLastExchange) HVD_CHECK(exchange({}));
  return {};
}

}  // namespace libhvd
