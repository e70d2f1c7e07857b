#include "channels/agent_channel.hpp"

#include "base/subprocess.hpp"
#include "base/system.hpp"
#include "common/fd.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// The guard ends a little after its agent, and needs up to 11 s for what the agent has left.
constexpr std::chrono::milliseconds kWaitTimeout{15000};
// How long the guard takes to see the end of its agent.
constexpr std::chrono::milliseconds kDeathTimeout{500};

class LocalAgent final : public AgentChannel {
 public:
  LocalAgent(pid_t guard, Fd death) : guard_(guard), death_(std::move(death)) {}

  std::string_view name() const override { return "fork"; }
  bool host_answers(std::chrono::milliseconds) const override { return true; }
  void kill(pid_t agent) override {
    killed_ = agent != 0 ? agent : guard_;
    ::kill(killed_, SIGKILL);
  }
  void wake(pid_t agent) override {
    if (agent != 0) ::kill(agent, SIGCONT);
  }
  bool ended() const override { return true; }  // wait() is short
  std::string failure() const override {
    const auto death = connection_failure();
    return "it ended before it greeted" + (death.empty() ? death : ": " + death);
  }

  // Returns what the guard says of the agent's death.
  std::string connection_failure() const override {
    std::array<char, 128> text;  // NOLINT: filled by read
    pollfd waiting{death_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(kDeathTimeout.count())) <= 0) return {};
    const ssize_t got = ::read(death_.get(), text.data(), text.size());
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }

  // Waits for the guard, which ends last of the job's processes. It waits for its agent, so if that
  // cannot be killed it does not end either.
  bool wait() override {
    ::kill(guard_, SIGCONT);  // it may have been stopped
    const bool hangs = killed_ != 0 && ::kill(killed_, 0) == 0;
    const auto status = wait_for_child(guard_, hangs ? kKilledTimeout : kWaitTimeout);
    return status && WIFEXITED(*status);
  }

 private:
  pid_t guard_;       // our child
  Fd death_;          // a pipe from the guard
  pid_t killed_ = 0;  // the process that was sent SIGKILL
};

}  // namespace

Result<std::unique_ptr<AgentChannel>> start_local_agent(const AgentOptions& options,
                                                        const AgentChannel::Events& events) {
  HVD_TRY(LinkPair link, make_local_link());
  HVD_TRY(Pipe death, make_pipe());
  const pid_t guard = ::fork();
  if (guard < 0) return fail_errno("cannot start the agent on this host", errno);
  if (guard == 0) become_guard(options, std::move(link.agent), std::move(death.write));
  events.on_link(std::move(link.launcher));
  return std::make_unique<LocalAgent>(guard, std::move(death.read));
}

}  // namespace hvdrun
