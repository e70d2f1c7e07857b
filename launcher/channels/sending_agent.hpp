// An agent on another host that is sent there first if the host has no hvdrun that can be used:
//
//   start ── lacks hvdrun ──► send the file ──► start again
//
// Each step is a login of its own. The channel belongs to the launcher's loop thread. A failure to
// send is a text of AgentChannel.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_channel.hpp"
#include "channels/sent_agent.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

class SendingAgent;

// What the channels of one launch share.
//
// The first host that lacks hvdrun gets it before the others, because they may have the same home
// folder: then they find it there.
class Sendings {
 public:
  explicit Sendings(SentAgent agent) : agent_(std::move(agent)) {}

  const SentAgent& agent() const { return agent_; }

  // Returns this program's file. The first call reads it. Error: it cannot be read.
  Result<std::shared_ptr<const AgentFile>> file();

 private:
  friend class SendingAgent;

  SentAgent agent_;
  std::shared_ptr<const AgentFile> file_;
  SendingAgent* first_ = nullptr;       // whose host gets the file first
  bool first_has_ended_ = false;        // its sending
  std::vector<SendingAgent*> waiting_;  // for that
};

// Starts hvdrun on the host by a login: with the agent's arguments, or, if there is a command, that
// command instead.
using StartLogin = std::function<Result<std::unique_ptr<AgentChannel>>(
    const std::optional<std::vector<std::string>>& command, const AgentChannel::Events& events)>;

// Starts an agent. Calls on_link before it returns, and again for each further start. Error: that
// of `start`.
Result<std::unique_ptr<AgentChannel>> start_sending_agent(const EventLoop& loop,
                                                          std::shared_ptr<Sendings> sendings,
                                                          StartLogin start,
                                                          const AgentChannel::Events& events);

}  // namespace hvdrun
