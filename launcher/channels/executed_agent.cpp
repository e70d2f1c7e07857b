#include "channels/executed_agent.hpp"

#include "base/subprocess.hpp"
#include "channels/child_process.hpp"
#include "channels/text_lines.hpp"
#include "common/fd.hpp"
#include "remote/remote_agent.hpp"

#include <csignal>
#include <cstddef>
#include <string>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// This program, even if its file was replaced meanwhile.
constexpr const char* kThisProgram = "/proc/self/exe";
// The guard ends a little after its agent, and needs up to 11 s for what the agent has left.
constexpr std::chrono::milliseconds kGuardPatience{15000};

class ExecutedAgent final : public AgentChannel {
 public:
  ExecutedAgent(const EventLoop& loop, ChildProcess process, Fd watched, Events events)
      : guard_(process.pid),
        errors_(std::move(process.errors)),
        watched_(std::move(watched)),
        events_(std::move(events)),
        errors_event_(loop, errors_.get(), FdEvent::readable, [this] { read_errors(); }),
        end_event_(loop, watched_.get(), FdEvent::readable, [this] { on_end(); }),
        text_([this](std::string line) { take_line(std::move(line)); }) {
    errors_event_.enable();
    end_event_.enable();
  }

  ~ExecutedAgent() override {
    if (ended_) return;
    ::kill(guard_, SIGKILL);
    wait_for_child(guard_, kKilledTimeout);
  }

  std::string_view name() const override { return "exec"; }
  bool host_answers(std::chrono::milliseconds) const override { return true; }
  void kill(pid_t agent) override {
    if (!ended_) ::kill(agent != 0 ? agent : guard_, SIGKILL);
  }
  void wake(pid_t agent) override {
    if (!ended_ && agent != 0) ::kill(agent, SIGCONT);
  }
  bool ended() const override { return ended_; }
  std::string failure() const override {
    if (!death_.empty()) return "it ended before it greeted: " + death_;
    return last_line_.empty() ? "it ended before it greeted" : last_line_;
  }
  std::string connection_failure() const override { return death_; }

  // As for a forked agent: the guard may have been stopped, and ends last.
  bool wait() override {
    if (!ended_) {
      ::kill(guard_, SIGCONT);
      auto status = wait_for_child(guard_, kGuardPatience);
      if (!status) {
        ::kill(guard_, SIGKILL);
        status = wait_for_child(guard_, kKilledTimeout);
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
    set_end(wait_for_child(guard_, kGuardPatience).value_or(SIGKILL));
    read_errors();
    text_.end();
    events_.on_end();
  }

  void read_errors() {
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(errors_.get(), buffer, sizeof buffer)) > 0)
      text_.add({buffer, static_cast<std::size_t>(got)});
    if (got == 0) errors_event_.disable();
  }

  // The guard says how the agent was killed.
  void take_line(std::string line) {
    if (line.starts_with(kAgentDeath))
      death_ = line.substr(kAgentDeath.size());
    else
      events_.on_text(last_line_ = std::move(line));
  }

  const pid_t guard_;  // our child
  Fd errors_;          // its stderr
  Fd watched_;         // readable once it has ended
  const Events events_;
  FdEvent errors_event_;
  FdEvent end_event_;
  TextLines text_;  // its stderr
  std::string death_;
  std::string last_line_;
  bool ended_ = false;
  int status_ = 0;  // as of wait(2)
};

}  // namespace

Result<std::unique_ptr<AgentChannel>> start_executed_agent(const EventLoop& loop,
                                                           const AgentChannel::Events& events) {
  HVD_TRY(ChildProcess process,
          start_child({kThisProgram, std::string(kAgentArgument), std::string(kHereArgument)}));
  auto watched = watch_child(process.pid);
  if (!watched) {
    ::kill(process.pid, SIGKILL);
    wait_for_child(process.pid, kKilledTimeout);
    return std::move(watched).error();
  }
  LinkEnd link = std::move(process.link);
  auto agent =
      std::make_unique<ExecutedAgent>(loop, std::move(process), std::move(*watched), events);
  events.on_link(std::move(link));
  return agent;
}

}  // namespace hvdrun
