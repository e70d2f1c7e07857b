#include "base/event_loop.hpp"

#include <cstdint>
#include <cstdlib>
#include <utility>

#include <event2/event.h>
#include <sys/eventfd.h>

namespace hvdrun {
namespace {

struct EventDeleter {
  void operator()(event* pointer) const { event_free(pointer); }
};
using EventPointer = std::unique_ptr<event, EventDeleter>;

event_base* make_base() {
  event_config* config = event_config_new();
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
  event_base* base = event_base_new_with_config(config);
  event_config_free(config);
  if (base == nullptr) std::abort();  // out of memory or descriptors before anything has begun
  return base;
}

}  // namespace

EventLoop::EventLoop() : base_(make_base()) {}
EventLoop::~EventLoop() {
  event_base_free(base_);
}
void EventLoop::run() {
  event_base_dispatch(base_);
}
void EventLoop::run_once() {
  event_base_loop(base_, EVLOOP_ONCE);
}
void EventLoop::stop() {
  event_base_loopbreak(base_);
}

// Shared, because a callback may destroy its own owner while it runs.
struct FdEvent::State : std::enable_shared_from_this<FdEvent::State> {
  std::function<void()> callback;
  EventPointer event;
};

FdEvent::FdEvent(const EventLoop& loop, int fd, Interest interest, std::function<void()> callback)
    : state_(std::make_shared<State>()) {
  state_->callback = std::move(callback);
  state_->event.reset(event_new(
      loop.base(), fd, static_cast<short>(interest | EV_PERSIST),
      [](evutil_socket_t, short, void* context) {
        const auto keep = static_cast<State*>(context)->shared_from_this();
        keep->callback();
      },
      state_.get()));
}

void FdEvent::enable() {
  event_add(state_->event.get(), nullptr);
}
void FdEvent::disable() {
  event_del(state_->event.get());
}
bool FdEvent::enabled() const {
  return event_pending(state_->event.get(), EV_READ | EV_WRITE, nullptr) != 0;
}

struct Timer::State : std::enable_shared_from_this<Timer::State> {
  std::function<void()> callback;
  EventPointer event;
};

Timer::Timer(const EventLoop& loop, std::function<void()> callback)
    : state_(std::make_shared<State>()) {
  state_->callback = std::move(callback);
  state_->event.reset(event_new(
      loop.base(), -1, 0,
      [](evutil_socket_t, short, void* context) {
        const auto keep = static_cast<State*>(context)->shared_from_this();
        keep->callback();
      },
      state_.get()));
}

void Timer::start(std::chrono::milliseconds delay) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(delay);
  timeval time{};
  time.tv_sec = seconds.count();
  time.tv_usec = std::chrono::microseconds(delay - seconds).count();
  event_add(state_->event.get(), &time);
}

void Timer::cancel() {
  event_del(state_->event.get());
}
bool Timer::pending() const {
  return event_pending(state_->event.get(), EV_TIMEOUT, nullptr) != 0;
}

Mailbox::Mailbox(const EventLoop& loop)
    : wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      event_(loop, wakeup_.get(), FdEvent::readable, [this] { drain(); }) {
  event_.enable();
}

void Mailbox::post(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(call));
  if (waiting_.size() == 1) {
    const std::uint64_t one = 1;
    // The counter cannot overflow: it is read each time the queue is emptied.
    [[maybe_unused]] const auto written = ::write(wakeup_.get(), &one, sizeof one);
  }
}

void Mailbox::drain() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    calls.swap(waiting_);
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(wakeup_.get(), &count, sizeof count);
  }
  for (const auto& call : calls) call();
}

}  // namespace hvdrun
