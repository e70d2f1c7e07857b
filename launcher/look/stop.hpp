// Stops the threads of another process for a moment, so that they can be read. Uses PTRACE_SEIZE
// and PTRACE_INTERRUPT: no signal is sent, a process that was stopped stays stopped, and when the
// tracer dies, also by SIGKILL, the kernel lets all threads run again. All calls are made by one
// thread.
//
// Source: ptrace(2).
#pragma once

#include "look/registers.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Which threads to stop, and in which order.
struct StopOrder {
  std::set<pid_t> spared = {};   // these run on
  std::set<pid_t> running = {};  // not asleep, as far as known: first
  // Last, and not while time is short: their system call fails if we are killed after they are
  // asked to stop, and before they are seen to.
  std::set<pid_t> last = {};
};

class Stop {
 public:
  // Called for a thread that has stopped alone, before it runs again.
  using Late = std::function<void(pid_t tid, const Registers& registers)>;

  // `began` is set to the clock's nanoseconds while threads are stopped, and to 0 afterwards: who
  // sees it too old kills this process.
  Stop(pid_t pid, std::atomic<std::uint64_t>* began) : pid_(pid), began_(began) {}
  ~Stop() { end(); }
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  // Stops the threads. From when the first one has stopped, waits for the others at most for
  // `limit`. Returns an errno value if the kernel refuses; 0 otherwise. A thread that hangs in the
  // kernel does not stop.
  int begin(const StopOrder& order, std::chrono::milliseconds limit);

  // The registers of the threads that are stopped.
  const std::map<pid_t, Registers>& threads() const { return registers_; }

  // Lets all threads run again. Signals that came meanwhile are delivered. Then stops those that
  // had not stopped in time, one by one: on a busy machine a thread stops when it gets a processor.
  // One that was asked to stop must, because a system call would fail if we left before.
  void end(const Late& late = {});

  // Returns how long a thread was stopped, from before the first to after the last, in seconds.
  double pause() const { return pause_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Traced {
    bool is_last = false;  // see StopOrder
    bool asked = false;
    bool stopped = false;
    int signal = 0;  // that the thread is about to get
  };
  int seize_new(const StopOrder& order);
  void ask(pid_t tid, Traced& traced);
  bool wait_for(pid_t tid, Traced& traced);
  bool hangs(pid_t tid) const;
  bool stop_threads(const std::function<bool(pid_t)>& wanted, std::chrono::milliseconds limit);
  void note_start(Clock::time_point start);
  void note_end();
  static void let_go(pid_t tid, const Traced& traced);
  void stop_late(const Late& late);

  pid_t pid_;
  std::atomic<std::uint64_t>* began_;
  std::optional<Clock::time_point> start_;
  std::map<pid_t, Traced> traced_;
  std::map<pid_t, Registers> registers_;
  double pause_ = 0;
};

}  // namespace hvdrun
