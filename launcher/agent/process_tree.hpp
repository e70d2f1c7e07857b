// Finds the processes of a job in /proc, and ends them.
//
// A job's processes are the descendants of its agent, which is a child subreaper, so that no
// process escapes when its parent dies. If agent and guard are both gone, they are the processes
// with the job's cookie (JobFolders::cookie) in their environment.
//
// Plain functions without state, which agent, guard and launcher use, each on its own thread;
// kill_job_processes() blocks. KillLoop does the same on an event loop.
//
// Source: proc(5), proc_tid_children(5), prctl(2) PR_SET_CHILD_SUBREAPER.
#pragma once

#include "base/event_loop.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';  // of its first thread, as in proc(5)
  int threads = 1;
  std::uint64_t start = 0;      // when it was started, in clock ticks since the machine's start
  std::string name;             // at most 15 bytes
  std::uint64_t cpu_ticks = 0;  // that it has used, and those children that have ended
  std::uint64_t resident_pages = 0;
};

// Returns whether the process is dead and only waits for its parent. A process whose first thread
// has ended while others run is a zombie for proc(5), but lives.
bool is_dead(const ProcessInfo& process);

// Returns every process that can be seen. Leaves out processes that end meanwhile. Returns none,
// not even this one, if there are no descriptors or no memory left for a look.
std::vector<ProcessInfo> all_processes();

// Returns those of `processes` that live and whose chain of parents leads to `root`. Leaves out
// `root` itself, and `spare` with their descendants.
std::vector<ProcessInfo> descendants_of(pid_t root, const std::vector<ProcessInfo>& processes,
                                        const std::vector<pid_t>& spare = {});

// Returns the processes below `root`, also dead ones that wait for their parent. It reads nothing
// of other processes (/proc/PID/task/TID/children), so it is quick where there are thousands. It
// may miss processes that are started or lose their parent meanwhile: it is for looks, not for
// signals.
std::vector<ProcessInfo> processes_below(pid_t root);

// Returns the one of `roots` that a process belongs to: the process is it, its chain of parents
// leads to it, or its session is that root's. Each of `roots` leads a session and is, or was, a
// child of `parent`; another process that has its pid by now is not taken for it. Returns nullopt
// if the process cannot be seen.
std::optional<pid_t> root_of(pid_t pid, pid_t parent, const std::set<pid_t>& roots);

// Returns those of `processes` that live and are descendants of `root` or have the cookie in their
// environment (JobFolders::cookie). Launcher, guard and agent never have the cookie of their own
// job, because it is made after they were executed.
std::vector<ProcessInfo> job_processes(const std::vector<ProcessInfo>& processes, pid_t root,
                                       const std::string& cookie,
                                       const std::vector<pid_t>& spare = {});

// Returns whether a process that was seen has ended since, or is dead.
bool has_ended(const ProcessInfo& process);

// Sends a signal, unless the process has ended since it was seen: another process may have its pid.
void send_signal(const ProcessInfo& process, int signal);

// Kills the processes that `find` finds, and returns them. It first stops them all, until `find`
// finds no others. Otherwise, under a limit on processes, each kill would make room for a process
// that another one forks.
std::vector<ProcessInfo> stop_and_kill(const std::function<std::vector<ProcessInfo>()>& find);

// Kills job_processes() until there are none, for at most `timeout`, and reaps our own children
// among them. Returns the processes that could not be ended.
std::vector<ProcessInfo> kill_job_processes(pid_t root, const std::string& cookie,
                                            std::chrono::milliseconds timeout,
                                            const std::vector<pid_t>& spare = {});

// Returns "pid 123 (python3)".
std::string to_string(const ProcessInfo& process);

// An agent's last resort: sends SIGKILL to every process below it, again and again, because new
// ones may be forked meanwhile. On the loop's thread.
class KillLoop {
 public:
  struct Events {
    std::function<void()> on_round;  // after each round; the owner checks whether any is left
    // Called after the last round, about 10 s later, with the processes that are left. They hang in
    // the kernel.
    std::function<void(const std::vector<ProcessInfo>&)> on_given_up;
  };
  KillLoop(const EventLoop& loop, Events events);

  // Starts a round now, and more until the loop stops. Several calls share one limit of rounds.
  void start();

 private:
  Events events_;
  Timer again_;
  int rounds_ = 0;
};

}  // namespace hvdrun
