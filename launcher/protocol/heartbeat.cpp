#include "protocol/heartbeat.hpp"

#include "base/system.hpp"

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
  HVD_TRY(thread_, start_thread("sends signs of life", [this] { run(); }));
  return {};
}

void HeartbeatSender::add(Link& link) {
  const std::lock_guard lock(mutex_);
  links_.push_back(&link);
}

void HeartbeatSender::remove(const FrameSender& link) {
  const std::lock_guard lock(mutex_);
  std::erase_if(links_, [&](const Link* each) { return each == &link; });
}

void HeartbeatSender::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval_, [this] { return ended_; }))
    for (Link* const link : links_) link->send_alive();
}

}  // namespace hvdrun
