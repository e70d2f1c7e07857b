#include "channels/ssh_agent.hpp"

#include "agent/tcp_connection.hpp"
#include "channels/agent_process.hpp"
#include "channels/ssh_failure.hpp"

#include <csignal>
#include <utility>

#include <sys/wait.h>

namespace hvdrun {
namespace {

class SshAgent final : public AgentChannel {
 public:
  SshAgent(const EventLoop& loop, std::string host, ChildProcess ssh, const SshOptions& options,
           const Events& events)
      : host_(std::move(host)),
        direct_(options.direct),
        agent_path_(options.agent_path),
        ssh_(loop, std::move(ssh), {events.on_text, events.on_end}) {}

  std::string_view name() const override { return "ssh"; }
  // An ssh without a connection of its own ends when the host does not answer; see ssh_command().
  bool host_answers(std::chrono::milliseconds) const override {
    return !direct_ || ended() || !waits_in_vain(ssh_.pid());
  }
  bool sends_in_vain() const override { return direct_ && !ended() && waits_in_vain(ssh_.pid()); }
  void kill(pid_t) override {
    if (ended()) return;
    killed_ = true;
    ::kill(ssh_.pid(), SIGKILL);
  }
  bool ended() const override { return ssh_.ended(); }
  std::string failure() const override {
    return explain_ssh_failure(ssh_.status(), ssh_.text(), host_, agent_path_);
  }

  bool was_cut_before_login() const override {
    return ended() && WIFEXITED(ssh_.status()) && WEXITSTATUS(ssh_.status()) == kSshFailed &&
           hvdrun::was_cut_before_login(ssh_.text());
  }

  std::optional<AgentLack> lack() const override {
    if (!ended() || !WIFEXITED(ssh_.status())) return std::nullopt;
    return find_lack(WEXITSTATUS(ssh_.status()), ssh_.text(), agent_path_);
  }

  std::string connection_failure() const override {
    return ended() && !killed_ ? explain_lost_connection(ssh_.status(), ssh_.text())
                               : std::string();
  }
  bool network_failed() const override {
    return WIFEXITED(ssh_.status()) && !connection_failure().empty();
  }

  bool wait() override { return ssh_.wait(); }

 private:
  const std::string host_;
  const bool direct_;
  const std::string agent_path_;
  bool killed_ = false;  // by us
  AgentProcess ssh_;
};

}  // namespace

Result<std::unique_ptr<AgentChannel>> start_ssh_agent(
    const EventLoop& loop, const SshTarget& target, const SshOptions& options,
    const std::vector<std::string>& arguments, const AgentChannel::Events& events, Fd stream) {
  ChildOptions streams;
  streams.stream = stream.get();
  HVD_TRY(ChildProcess ssh, start_watched_child(ssh_command(target, options, arguments), streams));
  LinkEnd link = std::move(ssh.link);
  link.text_first = true;
  auto agent = std::make_unique<SshAgent>(loop, target.host, std::move(ssh), options, events);
  if (!stream) events.on_link(std::move(link));
  return agent;
}

}  // namespace hvdrun
