#include "channels/executed_agent.hpp"

#include "channels/agent_process.hpp"
#include "remote/remote_agent.hpp"

#include <csignal>
#include <string>
#include <utility>

namespace hvdrun {
namespace {

// This program, even if its file was replaced meanwhile.
constexpr const char* kThisProgram = "/proc/self/exe";

class ExecutedAgent final : public AgentChannel {
 public:
  ExecutedAgent(const EventLoop& loop, ChildProcess guard, Events events)
      : events_(std::move(events)),
        guard_(loop, std::move(guard),
               {[this](std::string line) { take_line(std::move(line)); }, events_.on_end}) {}

  std::string_view name() const override { return "exec"; }
  bool host_answers(std::chrono::milliseconds) const override { return true; }
  void kill(pid_t agent) override { signal(agent != 0 ? agent : guard_.pid(), SIGKILL); }
  void wake(pid_t agent) override {
    if (agent != 0) signal(agent, SIGCONT);
  }
  bool ended() const override { return guard_.ended(); }
  std::string failure() const override {
    if (!death_.empty()) return "it ended before it greeted: " + death_;
    return last_line_.empty() ? "it ended before it greeted" : last_line_;
  }
  std::string connection_failure() const override { return death_; }

  // As for a forked agent: the guard may have been stopped, and ends last.
  bool wait() override {
    signal(guard_.pid(), SIGCONT);
    return guard_.wait();
  }

 private:
  void signal(pid_t pid, int number) const {
    if (!ended()) ::kill(pid, number);
  }

  // The guard says how the agent was killed.
  void take_line(std::string line) {
    if (line.starts_with(kAgentDeath))
      death_ = line.substr(kAgentDeath.size());
    else
      events_.on_text(last_line_ = std::move(line));
  }

  const Events events_;
  std::string death_;
  std::string last_line_;
  AgentProcess guard_;
};

}  // namespace

Result<std::unique_ptr<AgentChannel>> start_executed_agent(const EventLoop& loop,
                                                           const AgentChannel::Events& events) {
  HVD_TRY(ChildProcess guard, start_watched_child({kThisProgram, std::string(kAgentArgument),
                                                   std::string(kHereArgument)}));
  LinkEnd link = std::move(guard.link);
  auto agent = std::make_unique<ExecutedAgent>(loop, std::move(guard), events);
  events.on_link(std::move(link));
  return agent;
}

}  // namespace hvdrun
