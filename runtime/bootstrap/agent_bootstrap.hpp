// The bootstrap of a generation, over the agents and the launcher (member_link.hpp). Its exchanges
// are those of one wire-up: there are kLastExchange of them.
//
// One thread. An exchange ends at once with HVD_ERROR_PEER when the generation is over. Then the
// member comes again, by another bootstrap over the same link.
#pragma once

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/member_link.hpp"
#include "common/agent_messages.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace libhvd {

class AgentBootstrap final : public Bootstrap {
 public:
  // Comes to the next generation, and waits for it. Returns null if the job does not want this
  // member any more. The link must outlive the bootstrap.
  struct Timeouts {
    std::chrono::milliseconds come;      // until the generation has its members
    std::chrono::milliseconds exchange;  // of each exchange
  };
  static Result<std::unique_ptr<AgentBootstrap>> open(MemberLink& link, const MemberCome& come,
                                                      Timeouts timeouts);

  const RankInfo& info() const override { return info_; }
  Result<std::vector<std::string>> exchange(const std::string& own) override;
  // Takes part in the exchanges that the wire-up did not need, so that the generation opens.
  Result<void> finish();

  // Who is in the generation, and which rank's state is the newest.
  const GenerationGo& generation() const { return go_; }

 private:
  AgentBootstrap(MemberLink& link, GenerationGo go, Timeouts timeouts);

  MemberLink& link_;
  GenerationGo go_;
  Timeouts timeouts_;
  RankInfo info_;
  std::uint32_t exchanges_ = 0;  // so far
};

}  // namespace libhvd
