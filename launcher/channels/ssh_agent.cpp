#include "channels/ssh_agent.hpp"

#include "agent/tcp_connection.hpp"
#include "base/subprocess.hpp"
#include "channels/child_process.hpp"
#include "channels/ssh_failure.hpp"
#include "channels/text_lines.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// The guard there ends within its own timeout, which is shorter. An ssh that takes longer hangs.
constexpr std::chrono::milliseconds kWaitTimeout{15000};

class SshAgent final : public AgentChannel {
 public:
  SshAgent(const EventLoop& loop, std::string host, ChildProcess process, Fd watched,
           const SshOptions& options, Events events)
      : host_(std::move(host)),
        direct_(options.direct),
        pid_(process.pid),
        errors_(std::move(process.errors)),
        watched_(std::move(watched)),
        agent_path_(options.agent_path),
        events_(std::move(events)),
        errors_event_(loop, errors_.get(), FdEvent::readable, [this] { read_errors(); }),
        end_event_(loop, watched_.get(), FdEvent::readable, [this] { on_end(); }),
        text_([this](std::string line) { events_.on_text(std::move(line)); }) {
    errors_event_.enable();
    end_event_.enable();
  }

  ~SshAgent() override {
    if (ended_) return;
    ::kill(pid_, SIGKILL);
    wait_for_child(pid_, kKilledTimeout);
  }

  std::string_view name() const override { return "ssh"; }
  // An ssh without a connection of its own ends when the host does not answer; see ssh_command().
  bool host_answers(std::chrono::milliseconds) const override {
    return !direct_ || ended_ || !waits_in_vain(pid_);
  }
  void kill(pid_t) override {
    if (ended_) return;
    killed_ = true;
    ::kill(pid_, SIGKILL);
  }
  bool ended() const override { return ended_; }
  std::string failure() const override {
    return explain_ssh_failure(status_, text_.beginning(), host_, agent_path_);
  }

  bool was_cut_before_login() const override {
    return ended_ && WIFEXITED(status_) && WEXITSTATUS(status_) == kSshFailed &&
           hvdrun::was_cut_before_login(text_.beginning());
  }

  std::optional<AgentLack> lack() const override {
    if (!ended_ || !WIFEXITED(status_)) return std::nullopt;
    return find_lack(WEXITSTATUS(status_), text_.beginning(), agent_path_);
  }

  std::string connection_failure() const override {
    return ended_ && !killed_ ? explain_lost_connection(status_, text_.beginning()) : std::string();
  }
  bool network_failed() const override {
    return WIFEXITED(status_) && !connection_failure().empty();
  }

  bool wait() override {
    if (!ended_) {
      auto status = wait_for_child(pid_, kWaitTimeout);
      if (!status) {
        ::kill(pid_, SIGKILL);
        status = wait_for_child(pid_, kKilledTimeout);
      }
      set_end(status.value_or(SIGKILL));
    }
    return WIFEXITED(status_) && WEXITSTATUS(status_) == 0;
  }

 private:
  void set_end(int status) {
    status_ = status;
    ended_ = true;
    errors_event_.disable();
    end_event_.disable();
  }

  void on_end() {
    set_end(wait_for_child(pid_, kWaitTimeout).value_or(SIGKILL));
    read_errors();
    text_.end();
    events_.on_end();
  }

  // Reads what has arrived. A background master of ssh may keep the pipe open for hours, so its
  // end means nothing.
  void read_errors() {
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(errors_.get(), buffer, sizeof buffer)) > 0)
      text_.add({buffer, static_cast<std::size_t>(got)});
    if (got == 0) errors_event_.disable();
  }

  const std::string host_;
  const bool direct_;
  const pid_t pid_;  // our child
  Fd errors_;        // its stderr
  Fd watched_;       // readable once it has ended
  const std::string agent_path_;
  const Events events_;
  FdEvent errors_event_;
  FdEvent end_event_;
  TextLines text_;       // ssh's stderr
  bool killed_ = false;  // by us
  bool ended_ = false;
  int status_ = 0;  // as of wait(2)
};

}  // namespace

Result<std::unique_ptr<AgentChannel>> start_ssh_agent(
    const EventLoop& loop, const SshTarget& target, const SshOptions& options,
    const std::vector<std::string>& arguments, const AgentChannel::Events& events, Fd stream) {
  ChildOptions streams;
  streams.stream = stream.get();
  HVD_TRY(ChildProcess process, start_child(ssh_command(target, options, arguments), streams));
  auto watched = watch_child(process.pid);
  if (!watched) {
    ::kill(process.pid, SIGKILL);
    wait_for_child(process.pid, kKilledTimeout);
    return std::move(watched).error();
  }
  LinkEnd link = std::move(process.link);
  link.text_first = true;
  auto agent = std::make_unique<SshAgent>(loop, target.host, std::move(process),
                                          std::move(*watched), options, events);
  if (!stream) events.on_link(std::move(link));
  return agent;
}

}  // namespace hvdrun
