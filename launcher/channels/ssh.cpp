#include "channels/ssh.hpp"

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/child_process.hpp"
#include "channels/local_addresses.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {

std::string shell_quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string remote_command(const SshOptions& options, const std::vector<std::string>& arguments) {
  return fmt::format("exec {} {}", shell_quote(options.agent_path), fmt::join(arguments, " "));
}

namespace {

// All but the command.
std::vector<std::string> ssh_words(const SshTarget& target, const SshOptions& options) {
  std::vector<std::string> words{options.program, "-T", "-x", "-a", "-o", "BatchMode=yes"};
  const auto set = [&](const std::string& option) {
    words.emplace_back("-o");
    words.push_back(option);
  };
  if (options.direct) {
    set("ServerAliveInterval=0");
  } else if (options.host_timeout.count() > 0) {
    // ssh asks every second once it has heard nothing for a second, and ends with the question that
    // follows ServerAliveCountMax unanswered ones (ssh_config(5)).
    set("ServerAliveInterval=1");
    set(fmt::format("ServerAliveCountMax={}",
                    std::max<std::int64_t>(options.host_timeout.count() - 1, 1)));
  }
  set("ClearAllForwardings=yes");
  if (options.accept_new) set("StrictHostKeyChecking=accept-new");
  if (!options.identity.empty()) {
    words.emplace_back("-i");
    words.push_back(options.identity);
  }
  if (const auto port = target.port ? target.port : options.port) {
    words.emplace_back("-p");
    words.push_back(std::to_string(*port));
  }
  if (!target.user.empty()) {
    words.emplace_back("-l");
    words.push_back(target.user);
  }
  words.emplace_back("--");
  words.push_back(target.host);
  return words;
}

// ssh(1): "exits with the exit status of the remote command or with 255 if an error occurred".
constexpr int kSshFailed = 255;

struct SshHint {
  std::string_view words;  // in ssh's message
  std::string_view advice;
};

constexpr std::array kTroubles{
    SshHint{"was revoked",
            "its key has been revoked: a file of known hosts has a @revoked line for it"},
    SshHint{"Host key verification failed",
            "its key is not known here, or has changed; compare it and log in once with ssh, or "
            "take new ones with --ssh-accept-new"},
    SshHint{"Permission denied",
            "the login was refused; `ssh HOST true` must work without a "
            "password: put a key there, or give one with -i"},
    SshHint{"Could not resolve hostname", "there is no such name; check -H or the hostfile"},
    SshHint{"Connection refused", "no ssh server answers there; check the host and the port (-p)"},
    SshHint{"timed out", "it does not answer"},
    SshHint{"No route to host", "it cannot be reached from here"},
    SshHint{"Too many authentication failures",
            "ssh offered too many keys; name the right one "
            "with -i"},
};

std::string_view last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const auto newline = text.find_last_of('\n');
  return newline == std::string_view::npos ? text : text.substr(newline + 1);
}

// The line of `text` that holds `words`; empty without one.
std::string_view line_with(std::string_view text, std::string_view words) {
  const auto at = text.find(words);
  if (at == std::string_view::npos) return {};
  const auto before = text.rfind('\n', at);
  const auto begin = before == std::string_view::npos ? 0 : before + 1;
  return last_line(text.substr(begin, text.find('\n', at) - begin));
}

// ssh's line with HOST for the host's name, where that stands as a word: the same for all hosts.
std::string without_name(std::string_view line, std::string_view host) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  };
  std::string text;
  while (!line.empty()) {
    const auto at = host.empty() ? std::string_view::npos : line.find(host);
    if (at == std::string_view::npos) break;
    const auto end = at + host.size();
    const bool is_word =
        (at == 0 || !is_part(line[at - 1])) && (end == line.size() || !is_part(line[end]));
    text += line.substr(0, at);
    text += is_word ? "HOST" : host;
    line.remove_prefix(end);
  }
  return text.append(line);
}

std::string name_killer(int wait_status) {
  return "ssh was killed by " + signal_name(WTERMSIG(wait_status));
}

// The guard over there ends within its own timeout; an ssh that takes longer hangs.
constexpr std::chrono::milliseconds kConfigTimeout{15000};

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
    reap();
  }

  std::string_view name() const override { return "ssh"; }
  // Without a connection of its own ssh ends when the host does not answer, see ssh_command().
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

  std::string connection_failure() const override {
    return ended_ && !killed_ ? explain_lost_connection(status_, text_.beginning()) : std::string();
  }
  bool network_failed() const override {
    return WIFEXITED(status_) && !connection_failure().empty();
  }

  bool wait() override {
    if (!ended_) {
      pollfd waiting{watched_.get(), POLLIN, 0};
      while (::poll(&waiting, 1, static_cast<int>(kConfigTimeout.count())) < 0 && errno == EINTR) {
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
  const bool direct_;
  const pid_t pid_;  // our child
  Fd errors_;        // its stderr
  Fd watched_;       // a descriptor of the process: pidfd_open(2)
  const std::string agent_path_;
  const Events events_;
  FdEvent errors_event_;
  FdEvent end_event_;
  TextLines text_;       // what it has printed
  bool killed_ = false;  // by us
  bool ended_ = false;
  int status_ = 0;  // as of wait(2)
};

}  // namespace

std::vector<std::string> ssh_config_command(const SshTarget& target, const SshOptions& options) {
  auto words = ssh_words(target, options);
  words.insert(words.begin() + 1, "-G");
  return words;
}

std::vector<std::string> ssh_command(const SshTarget& target, const SshOptions& options,
                                     const std::vector<std::string>& arguments) {
  auto words = ssh_words(target, options);
  words.push_back(remote_command(options, arguments));
  return words;
}

std::string explain_agent_end(int code, std::string_view errors, const std::string& agent_path) {
  if (const auto line = line_with(errors, "error while loading shared libraries"); !line.empty())
    return fmt::format("a library of hvdrun is missing there: {}", line);
  if (code == kExitNotFound)
    return fmt::format(
        "hvdrun not found at {}; install the same version there, or say where it is "
        "with --agent-path",
        agent_path);
  if (code == kExitNotExecutable)
    return fmt::format("{} cannot be executed there: {}", agent_path, last_line(errors));
  if (!errors.empty()) return std::string(last_line(errors));
  return fmt::format("hvdrun ended there with exit code {} and no word", code);
}

std::string explain_login_failure(std::string_view who, std::string_view errors,
                                  std::string_view host) {
  for (const auto& trouble : kTroubles)
    if (const auto line = line_with(errors, trouble.words); !line.empty())
      return fmt::format("{} ({})", trouble.advice, without_name(line, host));
  return errors.empty() ? fmt::format("{} failed without a word", who)
                        : without_name(last_line(errors), host);
}

std::string explain_lost_connection(int wait_status, std::string_view errors) {
  if (WIFSIGNALED(wait_status)) return name_killer(wait_status);
  if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != kSshFailed || errors.empty())
    return {};
  return fmt::format("ssh: {}", last_line(errors));
}

std::string explain_ssh_failure(int wait_status, std::string_view errors, std::string_view host,
                                const std::string& agent_path) {
  if (WIFSIGNALED(wait_status)) return name_killer(wait_status);
  const int code = WEXITSTATUS(wait_status);
  if (code != kSshFailed) return explain_agent_end(code, errors, agent_path);
  return explain_login_failure("ssh", errors, host);
}

Result<std::unique_ptr<AgentChannel>> start_ssh_agent(
    const EventLoop& loop, const SshTarget& target, const SshOptions& options,
    const std::vector<std::string>& arguments, const AgentChannel::Events& events, Fd stream) {
  ChildOptions streams;
  streams.stream = stream.get();
  HVD_TRY(ChildProcess process, start_child(ssh_command(target, options, arguments), streams));
  Fd watched(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!watched) {
    const int error = errno;
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
    return fail_errno("cannot watch ssh", error);
  }
  LinkEnd link = std::move(process.link);
  link.text_first = true;
  auto agent = std::make_unique<SshAgent>(loop, target.host, std::move(process), std::move(watched),
                                          options, events);
  if (!stream) events.on_link(std::move(link));
  return agent;
}

}  // namespace hvdrun
