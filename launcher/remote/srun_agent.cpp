#include "remote/srun_agent.hpp"

#include "agent/agent.hpp"
#include "agent/process_tree.hpp"
#include "agent/tcp_connection.hpp"
#include "base/event_loop.hpp"
#include "base/system.hpp"
#include "common/net/address.hpp"
#include "common/net/tcp.hpp"
#include "remote/remote_agent.hpp"
#include "remote/tls_proxy.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kCredentialsTimeout{60};

// Returns our hello, from SLURM's names of host and task (srun(1), output environment variables).
Result<AgentHello> own_hello() {
  const char* host = std::getenv("SLURMD_NODENAME");
  const char* task = std::getenv("SLURM_PROCID");
  AgentHello hello;
  const std::string_view digits = task == nullptr ? "" : task;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), hello.task);
  if (host == nullptr || parsed.ec != std::errc())
    return fail(
        "SLURMD_NODENAME and SLURM_PROCID are not set: this is hvdrun's agent, which only "
        "hvdrun can start");
  hello.host = host;
  return hello;
}

// Closes stdin and makes stdout stderr, so that libraries print there and cannot read the
// credentials.
Result<void> close_standard_streams() {
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0 ||
      ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    return fail_errno("cannot open /dev/null", errno);
  return {};
}

// The task after it has forked the guard: it carries the link and waits for the guard.
class LinkProcess {
 public:
  // `agents_end` is the other end of `local`; the agent has it, too. `death`: the guard says there
  // how the agent ended.
  LinkProcess(Connection tls, Fd local, LinkEnd agents_end, Fd death, pid_t guard,
              std::function<void()> clean_up)
      : guard_(guard),
        agents_end_(std::move(agents_end)),
        death_(std::move(death)),
        clean_up_(std::move(clean_up)),
        signals_(loop_, {SIGCHLD}, [this](int) { on_child(); }),
        proxy_(loop_, std::move(tls), std::move(local), [this](const auto&) {
          link_over_ = true;
          consider_leaving();
        }) {}

  // Returns the guard's wait status.
  int run() {
    on_child();  // the guard may have ended before the watch began
    if (!left_) loop_.run();
    return guard_status_.value_or(0);
  }

 private:
  void on_child() {
    int status = 0;
    pid_t pid = 0;
    // If the guard was killed its orphans become our children: we are a subreaper, too.
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0)
      if (pid == guard_) guard_status_ = status;
    // An agent whose guard was killed ends the job by itself, so the link stays open for it.
    if (guard_status_ && !closed_ && (!WIFSIGNALED(*guard_status_) || !has_agent())) close_link();
  }

  // Returns what is in the pipe now.
  static std::string text_in(const Fd& pipe) {
    std::array<char, 128> text;  // NOLINT: filled by read
    const ssize_t got = ::read(pipe.get(), text.data(), text.size());
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }

  static bool has_agent() {
    const auto ours = descendants_of(::getpid(), all_processes());
    return std::any_of(ours.begin(), ours.end(),
                       [](const auto& process) { return process.name == kAgentProcess; });
  }

  void close_link() {
    closed_ = true;
    if (WIFSIGNALED(*guard_status_)) clean_up_();
    if (const auto how = text_in(death_); !how.empty()) proxy_.say_last(FrameType::died, how);
    agents_end_ = {};
    proxy_.local_has_ended();
    consider_leaving();
  }

  void consider_leaving() {
    if (!link_over_ || !closed_) return;
    left_ = true;
    loop_.stop();
  }

  EventLoop loop_;
  pid_t guard_;
  LinkEnd agents_end_;
  Fd death_;
  std::function<void()> clean_up_;
  std::optional<int> guard_status_;
  bool closed_ = false;  // the guard's work is done, by the guard or here
  bool link_over_ = false;
  bool left_ = false;
  SignalWatch signals_;
  TlsProxy proxy_;
};

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? kExitSignalBase + WTERMSIG(wait_status)
                                  : WEXITSTATUS(wait_status);
}

Result<int> connect_and_run(const AgentCredentials& credentials, const AgentHello& hello) {
  const std::string& job_id = credentials.key.identity;
  if (!is_job_id(job_id)) return fail("the launcher's job id is invalid");
  HVD_TRY(AcceptedAgent accepted, connect_to_launcher(credentials, hello, STDIN_FILENO));
  HVD_CHECK(close_standard_streams());
  HVD_TRY(LinkPair pair, make_local_link());
  HVD_TRY(Pipe death, make_pipe());
  HVD_CHECK(set_nonblocking(death.read.get()));
  const pid_t guard = ::fork();
  if (guard < 0) return fail_errno("cannot start the agent", errno);
  if (guard == 0) {
    const auto route = route_of_socket(accepted.tls.get());
    accepted.tls.close();  // only the task may hold the connection open
    pair.launcher = {};
    run_agent_on(std::move(pair.agent), {route, true}, std::move(death.write));
  }
  set_process_name("hvdrun-link");
  Fd local = std::move(pair.launcher.in);
  pair.launcher = {};
  LinkProcess process(std::move(accepted.tls), std::move(local), std::move(pair.agent),
                      std::move(death.read), guard, [&] { clean_up(job_id, accepted.agent); });
  return exit_code_of(process.run());
}

Result<int> run_task() {
  HVD_TRY(const AgentHello hello, own_hello());
  HVD_TRY(const AgentCredentials credentials,
          receive_credentials(STDIN_FILENO, kCredentialsTimeout));
  return connect_and_run(credentials, hello);
}

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// For one address. A launcher that is busy with thousands of agents may answer late.
constexpr milliseconds kAttempt{10000};
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{1000};

milliseconds left_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  return std::max(left, milliseconds(0));
}

bool is_end_of_file(int fd) {
  std::array<char, 256> ignored;  // NOLINT: never read
  const ssize_t got = ::read(fd, ignored.data(), ignored.size());
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

// Connects to one address after the other, until the deadline.
class Connector {
 public:
  Connector(const AgentCredentials& credentials, const AgentHello& hello, int lifeline)
      : hello_(pack_agent_hello(hello)),
        lifeline_(lifeline),
        deadline_(Clock::now() + credentials.timeout) {}

  bool in_time() const { return Clock::now() < deadline_; }
  bool abandoned() const { return abandoned_; }

  void pause(milliseconds time) {
    attempt_deadline_ = std::min(deadline_, Clock::now() + time);
    sent_hello_ = false;
    static_cast<void>(wait(-1, 0));
  }

  // Connects to this address. Error: why not, with the address.
  Result<AcceptedAgent> connect_to(const TlsKey& key, const LinkAddress& address) {
    attempt_deadline_ = std::min(deadline_, Clock::now() + kAttempt);
    sent_hello_ = false;
    auto connection = try_address(key, address);
    if (connection) return connection;
    return with_context(fmt::format("{} port {}", address.address, address.port),
                        connection.error());
  }

 private:
  // Waits for events of a descriptor. Error: the time is over, or the launcher has hung up.
  Result<void> wait(int fd, short events) {
    while (true) {
      std::array<pollfd, 2> waiting{pollfd{fd, events, 0},
                                    pollfd{sent_hello_ ? -1 : lifeline_, POLLIN, 0}};
      const int ready = ::poll(waiting.data(), waiting.size(),
                               static_cast<int>(left_until(attempt_deadline_).count()));
      if (waiting[1].revents != 0 && is_end_of_file(lifeline_)) {
        abandoned_ = true;
        return fail("the launcher has hung up");
      }
      if (waiting[0].revents != 0) return {};
      if (ready == 0) return fail("no answer");
    }
  }

  Result<Fd> connect(const LinkAddress& to) {
    const auto address = parse_address(to.address, to.port);
    if (!address) return fail("is no IP address");
    auto socket = make_tcp_socket(*address);
    if (!socket) return fail_errno("cannot open a socket", socket.error());
    int error = connect_tcp(socket->get(), *address);
    if (error == 0) {
      HVD_CHECK(wait(socket->get(), POLLOUT));
      error = connect_error(socket->get());
    }
    if (error != 0) return fail_errno("cannot connect", error);
    return std::move(*socket);
  }

  Result<Connection> secure(Fd socket, const TlsKey& key) {
    auto tls = Tls::start(socket.get(), Tls::Side::client, key);
    if (!tls) return fail(tls.error());
    while (true) {
      const auto awaited = (*tls)->handshake();
      if (!awaited) return fail(awaited.error());
      if (*awaited == 0) return Connection(std::move(socket), std::move(*tls));
      HVD_CHECK(wait(socket.get(), *awaited));
    }
  }

  Result<AcceptedAgent> try_address(const TlsKey& key, const LinkAddress& address) {
    HVD_TRY(Fd socket, connect(address));
    HVD_TRY(Connection tls, secure(std::move(socket), key));
    // The hello is short and the first data, so it is written at once and whole.
    if (tls.send(hello_.data(), hello_.size()) != static_cast<ssize_t>(hello_.size()))
      return fail_errno("cannot write", errno);
    // A launcher that has accepted all agents hangs up, and srun may report that before the accept
    // arrives. So the lifeline is ignored from here on.
    sent_hello_ = true;
    // The accept is one record, and the launcher's next data waits for our first frame.
    std::array<char, kAgentAcceptSize> answer{};
    while (true) {
      const ssize_t got = tls.receive(answer.data(), answer.size());
      if (got == 0) return fail("the launcher has closed the connection");
      if (got > 0) {
        HVD_TRY(const auto agent,
                parse_agent_accept({answer.data(), static_cast<std::size_t>(got)}));
        return AcceptedAgent{std::move(tls), agent};
      }
      if (!would_block(errno)) return fail_errno("cannot read", errno);
      HVD_CHECK(wait(tls.get(), POLLIN));
    }
  }

  std::string hello_;
  int lifeline_;
  Clock::time_point deadline_;
  Clock::time_point attempt_deadline_;
  bool sent_hello_ = false;  // on this connection
  bool abandoned_ = false;
};

}  // namespace

void run_srun_agent() {
  sigset_t everything;
  sigfillset(&everything);
  ::sigprocmask(SIG_SETMASK, &everything, nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto code = run_task();
  if (!code) std::fprintf(stderr, "hvdrun: %s\n", code.error().message.c_str());
  ::_exit(code ? *code : code.error().exit_code);
}

Result<AgentCredentials> receive_credentials(int input, milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::string text;
  std::array<char, 1024> buffer;  // NOLINT: filled by read
  while (!is_whole_credentials(text)) {
    pollfd waiting{input, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left_until(deadline).count()));
    if (ready == 0) return fail("no credentials arrived from the launcher through srun in time");
    if (ready < 0) continue;  // EINTR
    const ssize_t got = ::read(input, buffer.data(), buffer.size());
    if (got == 0)
      return fail(text.empty() ? "the launcher has hung up before it said anything"
                               : "the launcher has hung up");
    if (got < 0 && errno != EAGAIN && errno != EINTR) return fail_errno("cannot read stdin", errno);
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return parse_credentials(text);
}

milliseconds next_pause(milliseconds pause) {
  return std::min(2 * pause, kLongestPause);
}

Result<AcceptedAgent> connect_to_launcher(const AgentCredentials& credentials,
                                          const AgentHello& hello, int lifeline) {
  if (const auto available = Tls::check_available(); !available)
    return fail("TLS to the launcher: " + available.error());
  HVD_CHECK(set_nonblocking(lifeline));
  Connector connector(credentials, hello, lifeline);
  Error last;
  for (milliseconds pause = kFirstPause; connector.in_time(); pause = next_pause(pause)) {
    for (const auto& address : credentials.addresses) {
      auto connection = connector.connect_to(credentials.key, address);
      if (connection) return connection;
      last = connection.error();
      if (connector.abandoned()) return last;
    }
    connector.pause(pause);
  }
  return fail(
      fmt::format("cannot reach the launcher ({}); --network-interface says which of its "
                  "interfaces this host can reach",
                  last.message));
}

}  // namespace hvdrun
