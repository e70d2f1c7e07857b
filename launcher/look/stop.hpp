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
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

class Stop {
 public:
  // `began` is set to the clock's nanoseconds while threads are stopped, and to 0 afterwards: who
  // sees it too old kills this process.
  Stop(pid_t pid, std::atomic<std::uint64_t>* began) : pid_(pid), began_(began) {}
  ~Stop() { end(); }
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  // Stops all threads except `spared`. From when the first one has stopped, waits for the others at
  // most for `limit`. Returns an errno value if the kernel refuses; 0 otherwise. A thread that
  // hangs in the kernel does not stop. `running`: those that are not asleep, as far as known.
  int begin(const std::set<pid_t>& spared, const std::set<pid_t>& running,
            std::chrono::milliseconds limit);

  // The registers of the threads that are stopped.
  const std::map<pid_t, Registers>& threads() const { return registers_; }

  // Lets all threads run again. Signals that came meanwhile are delivered.
  void end();

  // Returns how long a thread was stopped, from before the first to after the last, in seconds.
  double pause() const { return pause_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Traced {
    bool asked = false;
    bool stopped = false;
    int signal = 0;  // that the thread is about to get
  };
  int seize_new(const std::set<pid_t>& spared);
  bool wait_for(pid_t tid, Traced& traced);
  bool stop_threads(const std::set<pid_t>* only, std::chrono::milliseconds limit);
  bool hangs(pid_t tid) const;
  void let_go_all();
  void note_start(Clock::time_point start);

  pid_t pid_;
  std::atomic<std::uint64_t>* began_;
  std::optional<Clock::time_point> start_;
  std::map<pid_t, Traced> traced_;
  std::map<pid_t, Registers> registers_;
  double pause_ = 0;
};

}  // namespace hvdrun
