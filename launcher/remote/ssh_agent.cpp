#include "remote/ssh_agent.hpp"

#include "remote/child_process.hpp"
#include "remote/ssh_failure.hpp"
#include "remote/text_lines.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// The guard over there ends within its own patience; an ssh that takes longer hangs.
constexpr std::chrono::milliseconds kPatience{15000};

class SshAgent final : public Carrier {
 public:
  SshAgent(const EventLoop& loop, std::string host, ChildProcess process, Fd watched,
           std::string agent_path, Events events)
      : host_(std::move(host)),
        pid_(process.pid),
        errors_(std::move(process.errors)),
        watched_(std::move(watched)),
        agent_path_(std::move(agent_path)),
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
    reap();
  }

  std::string_view name() const override { return "ssh"; }
  bool host_answers(std::chrono::milliseconds) const override { return true; }  // see ssh_command()
  void kill(pid_t) override {
    if (!ended_) ::kill(pid_, SIGKILL);
  }
  bool ended() const override { return ended_; }
  std::string failure() const override {
    return explain_ssh_failure(status_, text_.beginning(), host_, agent_path_);
  }

  std::string connection_failure() const override {
    return ended_ ? explain_lost_connection(status_, text_.beginning()) : std::string();
  }

  bool wait() override {
    if (!ended_) {
      pollfd waiting{watched_.get(), POLLIN, 0};
      while (::poll(&waiting, 1, static_cast<int>(kPatience.count())) < 0 && errno == EINTR) {
      }
      if (waiting.revents == 0) ::kill(pid_, SIGKILL);
      reap();
    }
    return WIFEXITED(status_) && WEXITSTATUS(status_) == 0;
  }

 private:
  void reap() {
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    ended_ = true;
    errors_event_.disable();
    end_event_.disable();
  }

  void on_end() {
    reap();
    read_errors();
    text_.end();
    events_.on_end();
  }

  // Until there is no more for now. A background master of ssh may keep the pipe open for hours, so
  // its end says nothing.
  void read_errors() {
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(errors_.get(), buffer, sizeof buffer)) > 0)
      text_.add({buffer, static_cast<std::size_t>(got)});
    if (got == 0) errors_event_.disable();
  }

  const std::string host_;
  const pid_t pid_;  // our child
  Fd errors_;        // its stderr
  Fd watched_;       // a descriptor of the process: pidfd_open(2)
  const std::string agent_path_;
  const Events events_;
  FdEvent errors_event_;
  FdEvent end_event_;
  TextLines text_;  // what it has printed
  bool ended_ = false;
  int status_ = 0;  // as of wait(2)
};

}  // namespace

Result<std::unique_ptr<Carrier>> start_ssh_agent(const EventLoop& loop, const std::string& host,
                                                 const std::vector<std::string>& command,
                                                 const std::string& agent_path,
                                                 const Carrier::Events& events, Fd stream) {
  ChildOptions options;
  options.stream = stream.get();
  HVD_TRY(ChildProcess process, start_child(command, options));
  Fd watched(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!watched) {
    const int error = errno;
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
    return fail_errno("cannot watch ssh", error);
  }
  LinkEnd link = std::move(process.link);
  link.text_first = true;
  auto agent = std::make_unique<SshAgent>(loop, host, std::move(process), std::move(watched),
                                          agent_path, events);
  if (!stream) events.on_link(std::move(link));
  return agent;
}

}  // namespace hvdrun
