#include "look/stop.hpp"

#include "common/clock.hpp"
#include "common/result.hpp"
#include "look/proc_files.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <thread>

#include <sys/ptrace.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

// Threads may start others while they are listed.
constexpr int kMostListings = 4;
constexpr std::chrono::microseconds kTick{50};
// A thread that is in state D after this time hangs.
constexpr std::chrono::milliseconds kHangs{2};
// How long to wait for the first thread. Until then the process runs: on a busy machine it may be
// waiting for a processor, and stops only when it has one.
constexpr std::chrono::milliseconds kFirstLimit{1000};
// How long to wait, after the stop, for threads that are about to stop.
constexpr std::chrono::milliseconds kLateLimit{1000};

// Returns how the thread has stopped: the signal, and above it the event. 0: it has ended; nullopt:
// not yet. The kernel keeps the stop, as if it had not been seen: if we are killed now, the thread
// gets the signal that it was about to get. A stop that wait(2) has taken loses it.
std::optional<int> look_for_stop(pid_t tid) {
  siginfo_t seen{};
  int status = 0;
  constexpr int kNow = __WALL | WNOHANG;
  if (::waitid(P_PID, static_cast<id_t>(tid), &seen, WSTOPPED | WEXITED | WNOWAIT | kNow) == 0) {
    if (seen.si_pid == 0) return std::nullopt;
    if (seen.si_code == CLD_TRAPPED || seen.si_code == CLD_STOPPED) return seen.si_status;
    ::waitpid(tid, &status, kNow);  // leaves no zombie
    return 0;
  }
  if (errno != EINVAL) return 0;
  const pid_t got = ::waitpid(tid, &status, kNow);  // before Linux 4.7
  if (got == 0) return std::nullopt;
  return got > 0 && WIFSTOPPED(status) ? status >> 8 : 0;
}

}  // namespace

// Takes control of threads that are new. They run on.
int Stop::seize_new(const std::set<pid_t>& spared) {
  for (const pid_t tid : threads_of(pid_)) {
    if (spared.contains(tid) || traced_.contains(tid)) continue;
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0)
      traced_[tid];
    else if (errno != ESRCH)
      return errno;
  }
  return 0;
}

// Returns whether there is nothing more to wait for: the thread has stopped, or ended. One that has
// stopped begins its system call again from now on, also if we are killed before all have stopped.
bool Stop::wait_for(pid_t tid, Traced& traced) {
  const auto status = look_for_stop(tid);
  if (!status) return false;
  if (*status == 0) return true;
  traced.stopped = true;
  if (auto registers = read_registers(tid)) registers_[tid] = std::move(*registers);
  resume_system_call(tid);  // at once: we may be killed
  // Without an event it is a signal that comes now. A stop by a signal (SIGSTOP) has an event.
  if ((*status >> 8) == 0) traced.signal = *status;
  return true;
}

bool Stop::hangs(pid_t tid) const {
  const auto stat = read_stat(pid_, "task/" + std::to_string(tid) + "/stat");
  return stat && stat->state == 'D';
}

// Asks threads to stop, and waits for them. Returns false if some do not.
bool Stop::stop_threads(const std::set<pid_t>* only, std::chrono::milliseconds limit) {
  const auto asked = Clock::now();
  std::vector<pid_t> missing;
  for (auto& [tid, traced] : traced_) {
    if (traced.asked || (only != nullptr && !only->contains(tid))) continue;
    traced.asked = true;
    ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    missing.push_back(tid);
  }
  while (true) {
    const auto before = Clock::now();
    std::erase_if(missing, [this](pid_t tid) { return wait_for(tid, traced_.at(tid)); });
    const bool some = std::any_of(traced_.begin(), traced_.end(),
                                  [](const auto& each) { return each.second.stopped; });
    if (some && !start_) note_start(before);
    if (missing.empty()) return true;
    const auto now = Clock::now();
    const bool too_long = start_ ? now - *start_ > limit : now - asked > kFirstLimit;
    if (too_long || (now - asked > kHangs &&
                     std::ranges::all_of(missing, [this](pid_t tid) { return hangs(tid); })))
      return false;
    std::this_thread::sleep_for(kTick);
  }
}

void Stop::note_start(Clock::time_point start) {
  start_ = start;
  if (began_ != nullptr) *began_ = monotonic_ns();
}

int Stop::begin(const std::set<pid_t>& spared, const std::set<pid_t>& running,
                std::chrono::milliseconds limit) {
  for (int listing = 0; listing < kMostListings; ++listing) {
    const std::size_t before = traced_.size();
    if (const int refused = seize_new(spared); refused != 0 && traced_.empty()) return refused;
    if (traced_.size() == before) break;
    // Those that sleep stop at once; the others first, so that those need not wait for them.
    const bool all = stop_threads(&running, limit) && stop_threads(nullptr, limit);
    if (!all) {
      stop_threads(nullptr, limit);
      break;
    }
  }
  return 0;
}

// Lets threads run that have stopped, and forgets them and those that have ended.
void Stop::let_go_all() {
  for (auto at = traced_.begin(); at != traced_.end();) {
    auto& [tid, traced] = *at;
    const bool over = traced.stopped || wait_for(tid, traced);
    if (traced.stopped)
      ::ptrace(PTRACE_DETACH, tid, nullptr,
               reinterpret_cast<void*>(long{traced.signal}));  // NOLINT
    at = over ? traced_.erase(at) : std::next(at);
  }
}

void Stop::end() {
  std::erase_if(traced_, [](const auto& each) { return !each.second.asked; });
  let_go_all();
  if (start_) pause_ = std::chrono::duration<double>(Clock::now() - *start_).count();
  start_.reset();
  if (began_ != nullptr) *began_ = 0;
  // Threads that have not stopped keep running. They are let go one by one when they stop, so that
  // their calls are resumed; one that hangs is let go when the tracer's thread ends.
  const auto deadline = Clock::now() + kLateLimit;
  while (!traced_.empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(kTick);
    let_go_all();
    std::erase_if(traced_, [this](const auto& each) { return hangs(each.first); });
  }
  traced_.clear();
}

}  // namespace hvdrun
