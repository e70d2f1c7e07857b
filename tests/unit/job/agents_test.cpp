// The credit for output that an agent gets: none is sent before the agent has greeted, when it may
// have no link.
#include "job/agents.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

// Keeps the credit that an agent was sent.
class CreditCounter final : public FrameSender {
 public:
  explicit CreditCounter(std::uint64_t& credit) : credit_(credit) {}
  void send(FrameType type, std::uint32_t /*destination*/, std::string_view payload) override {
    if (type == FrameType::output_credit) credit_ += *parse_number(payload);
  }
  void send_shared(FrameType /*type*/, std::uint32_t /*destination*/,
                   const SharedPayload& /*payload*/) override {}

 private:
  std::uint64_t& credit_;
};

class TwoAgents final : public Agents {
 public:
  TwoAgents() : Agents({}), first(add_agent(Host{})), second(add_agent(Host{})) {}

  void greet(AgentState& agent) {
    agent.link = std::make_unique<CreditCounter>(credit[&agent]);
    greeted(agent, {});
  }

  Result<void> start(Start /*start*/) override { return {}; }
  std::string stage(const AgentState& /*agent*/) const override { return {}; }
  void give_up(AgentState& /*agent*/, std::string /*why*/) override {}
  std::vector<std::string> kill() override { return {}; }
  std::string last_note() const override { return {}; }
  std::vector<std::string> reap(const std::vector<pid_t>& /*spare*/) override { return {}; }

  std::map<const AgentState*, std::uint64_t> credit;
  AgentState& first;
  AgentState& second;

 private:
  void cut_starting() override {}
};

TEST(Agents, KeepTheCreditOfAnAgentUntilItGreets) {
  TwoAgents agents;
  agents.greet(agents.first);
  agents.return_credit();
  agents.took_output(agents.first, kOutputWindow, true);
  EXPECT_EQ(agents.credit[&agents.first], 2 * kOutputWindow);
  agents.greet(agents.second);
  agents.return_credit();
  EXPECT_EQ(agents.credit[&agents.second], kOutputWindow);
  agents.return_credit();
  EXPECT_EQ(agents.credit[&agents.second], kOutputWindow);
}

}  // namespace
}  // namespace hvdrun
