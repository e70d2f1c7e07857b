#include "remote/srun_agent.hpp"

#include "agent/agent.hpp"
#include "agent/process_tree.hpp"
#include "base/event_loop.hpp"
#include "base/signal_watch.hpp"
#include "remote/remote_agent.hpp"
#include "remote/route.hpp"
#include "remote/sweep.hpp"
#include "remote/tls_pump.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kInvitationPatience{60};

// SLURM's names for where we are (srun(1), output environment variables).
Result<Introduction> introduce_ourselves() {
  const char* host = std::getenv("SLURMD_NODENAME");
  const char* task = std::getenv("SLURM_PROCID");
  Introduction introduction;
  const std::string_view digits = task == nullptr ? "" : task;
  const auto parsed =
      std::from_chars(digits.data(), digits.data() + digits.size(), introduction.task);
  if (host == nullptr || parsed.ec != std::errc())
    return fail(
        "SLURMD_NODENAME and SLURM_PROCID are not set: this is hvdrun's agent, which only "
        "hvdrun can start");
  introduction.host = host;
  return introduction;
}

// What libraries print goes to stderr, and nobody reads the invitation again.
Result<void> close_standard_streams() {
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0 ||
      ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    return fail_errno("cannot open /dev/null", errno);
  return {};
}

// The task's life beside the guard; see the header.
class LinkProcess {
 public:
  // `agents_end` is the other end of `local`, which the agent has too.
  LinkProcess(TlsStream stream, Fd local, LinkEnd agents_end, pid_t guard,
              std::function<void()> sweep)
      : guard_(guard),
        agents_end_(std::move(agents_end)),
        sweep_(std::move(sweep)),
        signals_(loop_, {SIGCHLD}, [this](int) { on_child(); }),
        pump_(loop_, std::move(stream), std::move(local), [this](const auto&) {
          link_over_ = true;
          consider_leaving();
        }) {}

  // Returns the guard's wait status.
  int run() {
    on_child();  // it may have ended before we watched
    if (!left_) loop_.run();
    return guard_status_.value_or(0);
  }

 private:
  void on_child() {
    int status = 0;
    pid_t pid = 0;
    // Orphans of a guard that was killed are ours: we are a subreaper too.
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0)
      if (pid == guard_) guard_status_ = status;
    // An agent whose guard was killed ends the job in good order by itself.
    if (guard_status_ && !closed_ && (!WIFSIGNALED(*guard_status_) || !has_agent())) close_link();
  }

  static bool has_agent() {
    const auto ours = descendants_of(::getpid(), all_processes());
    return std::any_of(ours.begin(), ours.end(),
                       [](const auto& process) { return process.name == kAgentProcess; });
  }

  void close_link() {
    closed_ = true;
    if (WIFSIGNALED(*guard_status_)) sweep_();
    agents_end_ = {};
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
  std::function<void()> sweep_;
  std::optional<int> guard_status_;
  bool closed_ = false;  // the guard's work is done, by it or by us
  bool link_over_ = false;
  bool left_ = false;
  SignalWatch signals_;
  TlsPump pump_;
};

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? kExitSignalBase + WTERMSIG(wait_status)
                                  : WEXITSTATUS(wait_status);
}

Result<int> live(const Invitation& invitation, const Introduction& introduction) {
  const std::string& job_id = invitation.key.identity;
  if (!is_job_id(job_id)) return fail("the launcher's job id is not one");
  HVD_TRY(Connection connection, connect_to_launcher(invitation, introduction, STDIN_FILENO));
  HVD_CHECK(close_standard_streams());
  HVD_TRY(LinkPair pair, make_local_link());
  const pid_t guard = ::fork();
  if (guard < 0) return fail_errno("cannot start the agent", errno);
  if (guard == 0) {
    const auto route = route_of_socket(connection.stream.fd());
    ::close(connection.stream.fd());  // the link ends with its one owner
    pair.launcher = {};
    run_agent_on(std::move(pair.agent), route, true);
  }
  ::prctl(PR_SET_NAME, "hvdrun-link");
  Fd local = std::move(pair.launcher.in);
  pair.launcher = {};
  LinkProcess process(std::move(connection.stream), std::move(local), std::move(pair.agent), guard,
                      [&] { sweep(job_id, connection.agent); });
  return exit_code_of(process.run());
}

Result<int> be_agent() {
  HVD_TRY(const Introduction introduction, introduce_ourselves());
  HVD_TRY(const Invitation invitation, receive_invitation(STDIN_FILENO, kInvitationPatience));
  return live(invitation, introduction);
}

}  // namespace

void run_srun_agent() {
  sigset_t everything;
  sigfillset(&everything);
  ::sigprocmask(SIG_SETMASK, &everything, nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const auto code = be_agent();
  if (!code) std::fprintf(stderr, "hvdrun: %s\n", code.error().message.c_str());
  ::_exit(code ? *code : code.error().exit_code);
}

}  // namespace hvdrun
