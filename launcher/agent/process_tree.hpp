// Which processes belong to a job, from /proc, and ending them.
//
// A job's processes are the descendants of its agent (a child subreaper, so nobody escapes by
// dying parents) and, should agent and guard both be gone, whatever carries the job's cookie
// (HVD_JOB_ID=…) in its environment. Plain functions without state: agent, guard and launcher all
// use them.
//
// Source: proc(5), prctl(2) PR_SET_CHILD_SUBREAPER.
#pragma once

#include "base/event_loop.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
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
  std::uint64_t start = 0;  // when it was started, in clock ticks since the machine's start
  std::string name;         // at most 15 bytes
};

// Dead and only waiting for its parent. A process whose first thread has ended while others run is
// a zombie for proc(5), but lives.
bool is_dead(const ProcessInfo& process);

// Every process that can be seen. Processes that end while reading are left out.
std::vector<ProcessInfo> all_processes();

// Those of `processes` that live and whose chain of parents leads to `root`; not `root` itself, and
// not `spare` or what is below them.
std::vector<ProcessInfo> descendants_of(pid_t root, const std::vector<ProcessInfo>& processes,
                                        const std::vector<pid_t>& spare = {});

// Living descendants of `root`, and living processes with the cookie in their environment
// (JobFolders::cookie). Launcher, guard and agent never carry the cookie of their own job: it is
// made after they were executed.
std::vector<ProcessInfo> job_processes(pid_t root, const std::string& cookie,
                                       const std::vector<pid_t>& spare = {});

// Sends a signal, unless the process has ended since it was seen; its pid may be another's then.
void send_signal(const ProcessInfo& process, int signal);

// Kills what `find` finds, and returns it. All are stopped first, until `find` finds no others:
// what is killed makes room, under a limit on processes, for those that the others fork.
std::vector<ProcessInfo> stop_and_kill(const std::function<std::vector<ProcessInfo>()>& find);

// Kills job_processes() until there are none, reaping our own children among them; at most
// `timeout`. Returns what could not be ended.
std::vector<ProcessInfo> kill_job_processes(pid_t root, const std::string& cookie,
                                            std::chrono::milliseconds timeout,
                                            const std::vector<pid_t>& spare = {});

// "pid 123 (python3)".
std::string to_string(const ProcessInfo& process);

// The last means of an agent: SIGKILL for every process below it, again and again, since some are
// being born meanwhile. On the loop's thread.

class KillLoop {
 public:
  struct Events {
    std::function<void()> on_round;  // after each; the owner looks whether anybody is left
    // What does not die for so long hangs in the kernel. No further round comes.
    std::function<void(const std::vector<ProcessInfo>&)> on_given_up;
  };
  KillLoop(const EventLoop& loop, Events events);

  // One round now, and more until nothing is left. The first sets the clock for all.
  void start();

 private:
  Events events_;
  Timer again_;
  int rounds_ = 0;
};

}  // namespace hvdrun
