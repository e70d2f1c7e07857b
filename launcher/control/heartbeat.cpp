#include "control/heartbeat.hpp"

#include <csignal>
#include <system_error>

#include <pthread.h>

namespace hvdrun {

HeartbeatSender::~HeartbeatSender() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<void> HeartbeatSender::start(std::chrono::milliseconds interval) {
  interval_ = interval;
  // Signals are for the loop's thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<void> started;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    started = fail_errno("cannot start the thread that sends signs of life", error.code().value());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void HeartbeatSender::add(Link& link) {
  const std::lock_guard lock(mutex_);
  links_.push_back(&link);
}

void HeartbeatSender::run() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    for (Link* const link : links_) link->send_alive();
    changed_.wait_for(lock, interval_, [this] { return ended_; });
  }
}

}  // namespace hvdrun
