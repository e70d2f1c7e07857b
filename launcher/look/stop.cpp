#include "look/stop.hpp"

#include "common/clock.hpp"
#include "common/result.hpp"
#include "look/proc_files.hpp"

#include <cerrno>
#include <thread>

#include <sys/ptrace.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

// Threads may start others while they are listed.
constexpr int kMostListings = 4;

}  // namespace

int Stop::seize_new(const std::set<pid_t>& spared) {
  int refused = 0;
  for (const pid_t tid : threads_of(pid_)) {
    if (spared.contains(tid) || traced_.contains(tid)) continue;
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      if (errno != ESRCH) refused = errno;
      if (refused == EPERM) return refused;
      continue;
    }
    traced_[tid];
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  }
  return refused;
}

bool Stop::wait_for(pid_t tid, Traced& traced) {
  int status = 0;
  const pid_t got = ::waitpid(tid, &status, __WALL | WNOHANG);
  if (got == 0) return false;
  if (got < 0 || !WIFSTOPPED(status)) return true;  // it has ended
  traced.stopped = true;
  // Without an event it is a signal that comes now. A stop by a signal (SIGSTOP) has an event.
  if ((status >> 16) == 0) traced.signal = WSTOPSIG(status);
  return true;
}

int Stop::begin(const std::set<pid_t>& spared, std::chrono::milliseconds limit) {
  start_ = std::chrono::steady_clock::now();
  if (began_ != nullptr) *began_ = monotonic_ns();
  for (int listing = 0; listing < kMostListings; ++listing) {
    const std::size_t before = traced_.size();
    if (const int refused = seize_new(spared); refused != 0 && traced_.empty()) {
      end();
      return refused;
    }
    bool waits = true;
    while (waits) {
      waits = false;
      for (auto& [tid, traced] : traced_)
        if (!traced.stopped && !wait_for(tid, traced)) waits = true;
      if (std::chrono::steady_clock::now() - start_ > limit) break;
      if (waits) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (waits || traced_.size() == before) break;
  }
  for (const auto& [tid, traced] : traced_) {
    if (!traced.stopped) continue;
    if (auto registers = read_registers(tid)) registers_[tid] = std::move(*registers);
    resume_system_call(tid);
  }
  return 0;
}

void Stop::end() {
  for (auto& [tid, traced] : traced_) {
    if (!traced.stopped) wait_for(tid, traced);
    // A thread that has not stopped keeps running, and is let go when this process ends.
    if (traced.stopped)
      ::ptrace(PTRACE_DETACH, tid, nullptr,
               reinterpret_cast<void*>(long{traced.signal}));  // NOLINT
  }
  if (!traced_.empty())
    pause_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  traced_.clear();
  if (began_ != nullptr) *began_ = 0;
}

}  // namespace hvdrun
