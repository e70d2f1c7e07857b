#include "session/signal_watch.hpp"

#include <array>
#include <atomic>
#include <cerrno>

namespace libhvd {
namespace {

static_assert(std::atomic<bool>::is_always_lock_free);
std::array<std::atomic<bool>, NSIG> arrived;

void remember(int signum) {
  arrived[static_cast<std::size_t>(signum)] = true;
}

bool can_be_watched(int signum) {
  switch (signum) {
    case SIGKILL:
    case SIGSTOP:
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGABRT:
      return false;
    default:
      return signum > 0 && signum < NSIG;
  }
}

}  // namespace

SignalWatch::~SignalWatch() {
  for (const auto& [signum, action] : before_) {
    ::sigaction(signum, &action, nullptr);
    arrived[static_cast<std::size_t>(signum)] = false;
  }
}

Result<void> SignalWatch::watch(int signum) {
  if (!can_be_watched(signum))
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "signal " + std::to_string(signum) + " cannot be watched");
  const std::lock_guard lock(mutex_);
  if (before_.contains(signum)) return {};
  struct sigaction action {};
  action.sa_handler = remember;  // NOLINT: a union, by POSIX
  action.sa_flags = SA_RESTART;
  if (signum == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
  struct sigaction before {};
  if (::sigaction(signum, &action, &before) != 0)
    return fail_errno("cannot watch signal " + std::to_string(signum), errno);
  before_.emplace(signum, before);
  return {};
}

void SignalWatch::set_agreed(int signum) {
  const std::lock_guard lock(mutex_);
  const auto before = before_.find(signum);
  if (signum == SIGINT || before == before_.end()) return;
  if (before->second.sa_handler == SIG_DFL)  // NOLINT: a union, by POSIX
    before->second.sa_handler = SIG_IGN;     // NOLINT: a union, by POSIX
}

int SignalWatch::highest_arrived() {
  for (std::size_t signum = arrived.size() - 1; signum > 0; --signum) {
    if (arrived[signum]) return static_cast<int>(signum);
  }
  return 0;
}

}  // namespace libhvd
