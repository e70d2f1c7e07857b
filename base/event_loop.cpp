#include "base/event_loop.hpp"

#include "base/system.hpp"
#include "common/signal_abbreviation.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include <event2/event.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

namespace hvdrun {
namespace {

struct EventDeleter {
  void operator()(event* pointer) const { event_free(pointer); }
};
using EventPointer = std::unique_ptr<event, EventDeleter>;

constexpr const char* kCannotWait = "cannot wait for events";

event_base* make_base() {
  event_config* config = event_config_new();
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
  // Ignores $EVENT_EPOLL_USE_CHANGELIST, which would delay what FdEvent does at once.
  event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV);
  event_set_fatal_callback([](int) { end_process(kCannotWait, errno); });
  event_set_log_callback([](int, const char*) {});  // that line says it
  event_base* base = event_base_new_with_config(config);
  event_set_log_callback(nullptr);
  event_config_free(config);
  if (base == nullptr) end_process(kCannotWait, errno);
  return base;
}

// How often a TimeoutTimer checks that this loop runs.
constexpr std::chrono::milliseconds kTick{1000};

sigset_t make_set(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

Fd make_fd(const std::vector<int>& signals) {
  const auto set = make_set(signals);
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) end_process("cannot make a signalfd", errno);
  return fd;
}

// Runs the callback of an event. libevent is C and would not run again after an exception.
template <class State>
void call(void* context) {
  const auto keep = static_cast<State*>(context)->shared_from_this();
  try {
    keep->callback();
  } catch (...) {
    keep->loop->end_with(std::current_exception());
  }
}

Fd make_eventfd() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) end_process("cannot make an eventfd", errno);
  return fd;
}

}  // namespace

// The timers of a loop whose time is a value, by the time at which they are due.
struct EventLoop::Simulation {
  TimeSource& time;
  std::multimap<Clock::time_point, Timer::State*> timers;
  bool stopped = false;
};

EventLoop::EventLoop() : EventLoop(nullptr) {}

EventLoop::EventLoop(TimeSource* time) : base_(make_base()) {
  if (time != nullptr) simulation_.reset(new Simulation{*time, {}});
}

EventLoop::~EventLoop() {
  event_base_free(base_);
}

void EventLoop::run() {
  if (!simulation_) {
    event_base_dispatch(base_);
    return throw_caught();
  }
  simulation_->stopped = false;
  while (!simulation_->stopped && turn()) {
  }
}

void EventLoop::run_once() {
  if (simulation_)
    turn();
  else
    event_base_loop(base_, EVLOOP_ONCE);
  throw_caught();
}

void EventLoop::end_with(std::exception_ptr thrown) const {
  thrown_ = std::move(thrown);
  event_base_loopbreak(base_);
}

void EventLoop::throw_caught() {
  if (const auto thrown = std::exchange(thrown_, nullptr)) std::rethrow_exception(thrown);
}

void EventLoop::stop() {
  if (simulation_)
    simulation_->stopped = true;
  else
    event_base_loopbreak(base_);
}

EventLoop::Clock::time_point EventLoop::now() const {
  return simulation_ ? simulation_->time.now() : Clock::now();
}

// Shared, because a callback may destroy its own owner while it runs. The event is removed at once;
// only its memory lives until the callback returns.
struct FdEvent::State : std::enable_shared_from_this<FdEvent::State> {
  const EventLoop* loop = nullptr;
  std::function<void()> callback;
  EventPointer event;
};

FdEvent::FdEvent(const EventLoop& loop, int fd, Interest interest, std::function<void()> callback)
    : state_(std::make_shared<State>()) {
  state_->loop = &loop;
  state_->callback = std::move(callback);
  state_->event.reset(event_new(
      loop.base(), fd, static_cast<short>(interest | EV_PERSIST),
      [](evutil_socket_t, short, void* context) { call<State>(context); }, state_.get()));
}

// Without memory in the kernel the callback would never come. (For a regular file epoll_ctl(2)
// gives EPERM.)
void FdEvent::enable() {
  if (event_add(state_->event.get(), nullptr) == 0) return;
  if (errno == ENOMEM || errno == ENOSPC) end_process(kCannotWait, errno);
}

void FdEvent::disable() {
  event_del(state_->event.get());
}

void FdEvent::reset() {
  if (state_) disable();
  state_.reset();
}

bool FdEvent::enabled() const {
  return event_pending(state_->event.get(), EV_READ | EV_WRITE, nullptr) != 0;
}

struct Timer::State : std::enable_shared_from_this<Timer::State> {
  const EventLoop* loop = nullptr;
  std::function<void()> callback;
  EventPointer event;
  // Used in a simulation, instead of `event`.
  EventLoop::Simulation* simulation = nullptr;
  std::optional<std::multimap<EventLoop::Clock::time_point, State*>::iterator> place;

  ~State() { leave(); }
  void leave() {
    if (place) simulation->timers.erase(*std::exchange(place, std::nullopt));
  }
};

// Does one step of a simulation. Returns false if nothing will ever happen. Handles descriptors
// before timers, as the real loop does, so that messages are read before their timeout.
bool EventLoop::turn() {
  event_base_loop(base_, EVLOOP_NONBLOCK);
  throw_caught();
  auto& [time, timers, stopped] = *simulation_;
  if (stopped || time.run_due()) return true;
  if (!timers.empty() && timers.begin()->first <= time.now()) {
    const auto state = timers.begin()->second->shared_from_this();
    state->leave();
    state->callback();
    return true;
  }
  return time.pass(timers.empty() ? std::nullopt : std::optional(timers.begin()->first));
}

Timer::Timer(const EventLoop& loop, std::function<void()> callback)
    : state_(std::make_shared<State>()) {
  state_->loop = &loop;
  state_->callback = std::move(callback);
  state_->simulation = loop.simulation_.get();
  if (state_->simulation != nullptr) return;
  state_->event.reset(event_new(
      loop.base(), -1, 0, [](evutil_socket_t, short, void* context) { call<State>(context); },
      state_.get()));
}

void Timer::start(std::chrono::milliseconds delay) {
  if (auto* const simulation = state_->simulation; simulation != nullptr) {
    state_->leave();
    state_->place = simulation->timers.emplace(simulation->time.now() + delay, state_.get());
    return;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(delay);
  timeval time{};
  time.tv_sec = seconds.count();
  time.tv_usec = std::chrono::microseconds(delay - seconds).count();
  event_add(state_->event.get(), &time);
}

void Timer::cancel() {
  if (state_->simulation != nullptr)
    state_->leave();
  else
    event_del(state_->event.get());
}

bool Timer::pending() const {
  if (state_->simulation != nullptr) return state_->place.has_value();
  return event_pending(state_->event.get(), EV_TIMEOUT, nullptr) != 0;
}

TimeoutTimer::TimeoutTimer(const EventLoop& loop, std::function<void()> callback)
    : loop_(loop), callback_(std::move(callback)), tick_(loop, [this] { on_tick(); }) {}

void TimeoutTimer::start(std::chrono::milliseconds delay) {
  left_ = delay;
  wait();
}

void TimeoutTimer::wait() {
  looked_ = loop_.now();
  tick_.start(std::min(std::chrono::ceil<std::chrono::milliseconds>(left_), kTick));
}

void TimeoutTimer::on_tick() {
  left_ -= std::min<EventLoop::Clock::duration>(loop_.now() - looked_, kTick);
  if (left_ > EventLoop::Clock::duration::zero()) return wait();
  callback_();
}

Mailbox::Mailbox(const EventLoop& loop)
    : wakeup_(make_eventfd()), event_(loop, wakeup_.get(), FdEvent::readable, [this] { drain(); }) {
  event_.enable();
}

void Mailbox::post(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(call));
  if (waiting_.size() == 1) {
    const std::uint64_t one = 1;
    // The counter cannot overflow, because it is read each time the queue is emptied.
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

std::vector<int> not_ignored(const std::vector<int>& signals) {
  std::vector<int> kept;
  for (const int signal : signals) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      kept.push_back(signal);
  }
  return kept;
}

sigset_t block_signals(const std::vector<int>& signals) {
  const auto set = make_set(signals);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &set, &before);
  return before;
}

SignalWatch::SignalWatch(const EventLoop& loop, const std::vector<int>& signals,
                         std::function<void(int)> callback)
    : fd_(make_fd(signals)),
      callback_(std::move(callback)),
      event_(loop, fd_.get(), FdEvent::readable, [this] { poll(); }) {
  event_.enable();
}

void SignalWatch::poll() {
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) {
    sender_ = static_cast<pid_t>(info.ssi_pid);
    callback_(static_cast<int>(info.ssi_signo));
  }
}

std::string signal_name(int signal) {
  const char* name = common::signal_abbreviation(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

}  // namespace hvdrun
