#include "look/stop.hpp"

#include "common/clock.hpp"
#include "common/result.hpp"
#include "look/proc_files.hpp"

#include <algorithm>
#include <cerrno>
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
// How long to wait for those that have not stopped in time, while the process runs.
constexpr std::chrono::milliseconds kLateLimit{500};
// The same for one whose system call would fail.
constexpr std::chrono::milliseconds kLastLimit{2000};

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

// Takes control of threads that are new. They run on. Returns an errno value if the kernel refuses
// one of them; 0 otherwise.
int Stop::seize_new(const StopOrder& order) {
  int refused = 0;
  for (const pid_t tid : threads_of(pid_)) {
    if (order.spared.contains(tid) || traced_.contains(tid)) continue;
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0)
      traced_[tid].is_last = order.last.contains(tid);
    else if (errno != ESRCH)
      refused = errno;
  }
  return refused;
}

// Returns whether there is nothing more to wait for: the thread has stopped, or ended. One that has
// stopped begins its system call again from now on, also if we are killed before all have stopped.
bool Stop::wait_for(pid_t tid, Traced& traced) {
  const auto status = look_for_stop(tid);
  if (!status) return false;
  if (*status == 0) return true;
  traced.stopped = true;
  if (auto registers = read_registers(tid)) registers_[tid] = std::move(*registers);
  resume_system_call(tid);
  // Without an event it is a signal that comes now. A stop by a signal (SIGSTOP) has an event.
  if ((*status >> 8) == 0) traced.signal = *status;
  return true;
}

void Stop::ask(pid_t tid, Traced& traced) {
  traced.asked = true;
  ::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
}

bool Stop::hangs(pid_t tid) const {
  const auto stat = read_stat(pid_, "task/" + std::to_string(tid) + "/stat");
  return stat && stat->state == 'D';
}

// Asks threads to stop, and waits for them. Returns false if some do not, or time is over.
bool Stop::stop_threads(const std::function<bool(pid_t)>& wanted, std::chrono::milliseconds limit) {
  const auto asked = Clock::now();
  if (start_ && asked - *start_ > limit) return false;
  std::vector<pid_t> missing;
  for (auto& [tid, traced] : traced_) {
    if (traced.asked || !wanted(tid)) continue;
    ask(tid, traced);
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

void Stop::note_end() {
  if (start_)
    pause_ = std::max(pause_, std::chrono::duration<double>(Clock::now() - *start_).count());
  start_.reset();
  if (began_ != nullptr) *began_ = 0;
}

void Stop::let_go(pid_t tid, const Traced& traced) {
  ::ptrace(PTRACE_DETACH, tid, nullptr, reinterpret_cast<void*>(long{traced.signal}));  // NOLINT
}

int Stop::begin(const StopOrder& order, std::chrono::milliseconds limit) {
  for (int listing = 0; listing < kMostListings; ++listing) {
    const std::size_t before = traced_.size();
    if (const int refused = seize_new(order); refused != 0 && traced_.empty()) return refused;
    if (traced_.size() == before) break;
    // Those that sleep stop at once; the others first, so that those need not wait for them.
    bool all = stop_threads([&](pid_t tid) { return order.running.contains(tid); }, limit);
    all &= stop_threads([&](pid_t tid) { return !traced_.at(tid).is_last; }, limit);
    all &= stop_threads([](pid_t) { return true; }, limit);
    if (!all) break;
  }
  return 0;
}

void Stop::end(const Late& late) {
  std::erase_if(traced_, [](const auto& each) {
    const auto& [tid, traced] = each;
    if (!traced.stopped) return false;
    let_go(tid, traced);
    return true;
  });
  note_end();
  stop_late(late);
  traced_.clear();
}

// A thread that does not stop keeps running, and is let go when the tracer's thread ends.
void Stop::stop_late(const Late& late) {
  for (auto& [tid, traced] : traced_)
    if (!traced.asked) ask(tid, traced);
  const auto began = Clock::now();
  const auto limit = [this] {
    const bool some = std::ranges::any_of(traced_, [](auto& each) { return each.second.is_last; });
    return some ? kLastLimit : kLateLimit;
  };
  while (!traced_.empty() && Clock::now() - began < limit()) {
    for (auto at = traced_.begin(); at != traced_.end();) {
      const auto before = Clock::now();
      auto& [tid, traced] = *at;
      if (!wait_for(tid, traced)) {
        ++at;
        continue;
      }
      if (traced.stopped) {
        note_start(before);
        const auto registers = registers_.find(tid);
        if (late && registers != registers_.end()) late(tid, registers->second);
        let_go(tid, traced);
        note_end();
      }
      at = traced_.erase(at);
    }
    if (Clock::now() - began > kHangs &&
        std::ranges::all_of(traced_, [this](const auto& each) { return hangs(each.first); }))
      return;
    std::this_thread::sleep_for(kTick);
  }
}

}  // namespace hvdrun
