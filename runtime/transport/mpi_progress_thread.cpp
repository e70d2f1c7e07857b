#include "transport/mpi_progress_thread.hpp"

#include "base/thread.hpp"
#include "common/clock.hpp"

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include <sched.h>

namespace libhvd {
namespace {

// MPI has nothing to sleep on, so the thread polls. At first it yields the processor in between,
// and after this time it pauses.
constexpr std::uint64_t kMpiYieldNs = 1'000'000;
constexpr std::chrono::microseconds kPause{50};
// MPI may report a message as sent, and still need to be called for it to leave.
constexpr std::chrono::milliseconds kIdlePause{2};
// A call of MPI that takes longer will not return.
constexpr std::chrono::seconds kTimeout{1};

}  // namespace

Result<std::shared_ptr<MpiProgressThread>> MpiProgressThread::start(
    const MpiLibrary& mpi, const std::vector<MpiEnd>& ends) {
  std::shared_ptr<MpiProgressThread> progress(new MpiProgressThread(mpi, ends));
  HVD_TRY(std::thread thread, start_thread("calls MPI", [progress] { progress->run(); }));
  thread.detach();
  return progress;
}

MpiProgressThread::MpiProgressThread(const MpiLibrary& mpi, const std::vector<MpiEnd>& ends)
    : mpi_(mpi.functions()) {
  for (const MpiEnd& end : ends) links_.emplace_back(end);
}

void MpiProgressThread::send(std::size_t link, MpiMessage message) {
  const std::lock_guard lock(mutex_);
  links_[link].to_send.push_back(std::move(message));
  work_.notify_one();
}

MpiProgressThread::Progress MpiProgressThread::take_progress(std::size_t link) {
  const std::lock_guard lock(mutex_);
  Progress& known = links_[link].progress;
  return {std::exchange(known.received, {}), known.sent, known.lost};
}

void MpiProgressThread::wait(int most_ms) {
  std::unique_lock lock(mutex_);
  owner_waits_ = true;
  work_.notify_one();
  changed_.wait_for(lock, std::chrono::milliseconds(most_ms), [this] { return has_progress_; });
  owner_waits_ = false;
  has_progress_ = false;
}

MpiMessage MpiProgressThread::message() {
  const std::lock_guard lock(mutex_);
  MpiMessage message;
  if (free_.empty()) {
    message.memory.reset(new std::byte[MpiMessage::kMostBytes]);  // not cleared
  } else {
    message.memory = std::move(free_.back().memory);
    free_.pop_back();
  }
  return message;
}

void MpiProgressThread::recycle(MpiMessage message) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(message));
}

void MpiProgressThread::stop() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  work_.notify_one();
  if (!changed_.wait_for(lock, kTimeout, [this] { return ended_; })) mpi_.abandon();
}

void MpiProgressThread::run() {
  std::uint64_t moved = monotonic_ns();
  while (begin_turn(monotonic_ns() - moved > kMpiYieldNs)) {
    if (progress())
      moved = monotonic_ns();
    else if (monotonic_ns() - moved < kMpiYieldNs)
      ::sched_yield();
    else
      std::this_thread::sleep_for(kPause);
  }
  end();
}

// Takes over the owner's messages. Sleeps while the owner wants nothing and MPI has no message of
// this thread. Returns false after stop().
bool MpiProgressThread::begin_turn(bool idle) {
  std::unique_lock lock(mutex_);
  const auto busy = [this] {
    if (stop_ || owner_waits_) return true;
    for (const Link& link : links_) {
      if (!link.to_send.empty() || !link.out.empty() || !link.in.empty()) return true;
    }
    return false;
  };
  if (idle) work_.wait_for(lock, kIdlePause, busy);
  for (Link& link : links_) {
    for (MpiMessage& message : link.to_send) link.out.push_back(std::move(message));
    link.to_send.clear();
  }
  return !stop_;
}

bool MpiProgressThread::progress() {
  bool moved = false;
  for (Link& link : links_) {
    moved = send_some(link) || moved;
    moved = find_some(link) || moved;
    moved = take_some(link) || moved;
  }
  return moved;
}

// Loses the link at its first error of MPI.
void MpiProgressThread::check(Link& link, int error) {
  if (error == 0 || link.lost) return;
  char text[256] = "";
  mpi_.describe(error, text, sizeof text);
  lose(link, text);
}

void MpiProgressThread::lose(Link& link, const std::string& why) {
  link.lost = true;
  std::fprintf(stderr, "hvd: MPI has lost rank %d: %s\n", link.end.number, why.c_str());
  const std::lock_guard lock(mutex_);
  link.progress.lost = has_progress_ = true;
  changed_.notify_one();
}

bool MpiProgressThread::is_done(Link& link, MpiMessage& message) {
  if (message.done || message.request == nullptr || link.lost) return message.done;
  int done = 0;
  check(link, mpi_.test(&message.request, &done));
  return message.done = !link.lost && done != 0;
}

// send_some(), find_some() and take_some() return whether anything has moved.
bool MpiProgressThread::send_some(Link& link) {
  for (MpiMessage& message : link.out) {
    if (message.request != nullptr || message.done || link.lost) continue;
    check(link, mpi_.send(message.memory.get(), static_cast<int>(message.bytes), link.end.number,
                          link.end.tag, &message.request));
  }
  bool moved = false;
  while (!link.out.empty() && is_done(link, link.out.front())) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(link.out.front()));
    link.out.pop_front();
    ++link.progress.sent;
    moved = has_progress_ = true;
  }
  if (moved) changed_.notify_one();
  return moved;
}

bool MpiProgressThread::find_some(Link& link) {
  bool moved = false;
  while (!link.lost) {
    hvd_mpi_message found = nullptr;
    int bytes = 0;
    check(link, mpi_.find(link.end.number, link.end.tag, &found, &bytes));
    if (link.lost || found == nullptr) break;
    if (bytes < 0 || static_cast<std::size_t>(bytes) > MpiMessage::kMostBytes) {
      lose(link, "it has sent " + std::to_string(bytes) + " bytes in one message");
      mpi_.abandon();  // MPI holds a message that is never received
      break;
    }
    MpiMessage& taken = link.in.emplace_back(message());
    taken.bytes = static_cast<std::size_t>(bytes);
    check(link, mpi_.receive(found, taken.memory.get(), bytes, &taken.request));
    moved = true;
  }
  return moved;
}

bool MpiProgressThread::take_some(Link& link) {
  bool moved = false;
  while (!link.in.empty() && is_done(link, link.in.front())) {
    const std::lock_guard lock(mutex_);
    link.progress.received.push_back(std::move(link.in.front()));
    link.in.pop_front();
    moved = has_progress_ = true;
  }
  if (moved) changed_.notify_one();
  return moved;
}

// Ends the thread. Memory that MPI still holds must outlive the thread; MPI holds some only after a
// failure.
void MpiProgressThread::end() {
  for (Link& link : links_) {
    for (std::deque<MpiMessage>* messages : {&link.out, &link.in}) {
      for (MpiMessage& message : *messages) {
        if (message.done) continue;
        (void)message.memory.release();
        mpi_.abandon();
      }
    }
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

}  // namespace libhvd
