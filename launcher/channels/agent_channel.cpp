#include "channels/agent_channel.hpp"

#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

class LocalAgent final : public AgentChannel {
 public:
  explicit LocalAgent(pid_t guard) : guard_(guard) {}

  std::string_view name() const override { return "fork"; }
  bool host_answers(std::chrono::milliseconds) const override { return true; }
  void kill(pid_t agent) override { ::kill(agent != 0 ? agent : guard_, SIGKILL); }
  void wake(pid_t agent) override {
    if (agent != 0) ::kill(agent, SIGCONT);
  }
  bool ended() const override { return true; }  // wait() is short
  std::string failure() const override { return "it ended before it greeted"; }

  // Waits for the guard, which ends last of the job's processes.
  bool wait() override {
    int status = 0;
    ::kill(guard_, SIGCONT);  // it may have been stopped
    while (::waitpid(guard_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status);
  }

 private:
  pid_t guard_;  // our child
};

}  // namespace

Result<std::unique_ptr<AgentChannel>> start_local_agent(const AgentOptions& options,
                                                        const AgentChannel::Events& events) {
  HVD_TRY(LinkPair link, make_local_link());
  const pid_t guard = ::fork();
  if (guard < 0) return fail_errno("cannot start the agent on this host", errno);
  if (guard == 0) become_guard(options, std::move(link.agent));
  events.on_link(std::move(link.launcher));
  return std::make_unique<LocalAgent>(guard);
}

}  // namespace hvdrun
