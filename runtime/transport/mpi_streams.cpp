#include "transport/mpi_streams.hpp"

#include "common/clock.hpp"
#include "common/system.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include <sched.h>

namespace libhvd {
namespace {

// MPI has nothing to sleep on: who waits asks again and again, at first with the processor offered
// to others in between.
constexpr std::uint64_t kMpiYieldNs = 1'000'000;
constexpr std::chrono::microseconds kPause{50};
// MPI may say of a message that it is sent, and still need to be called for it to go.
constexpr std::chrono::milliseconds kIdlePause{2};
// A call of MPI that takes longer does not come back.
constexpr std::chrono::seconds kTimeout{1};

}  // namespace

Result<std::shared_ptr<MpiProgressThread>> MpiProgressThread::start(
    const MpiLibrary& mpi, const std::vector<MpiEnd>& ends) {
  std::shared_ptr<MpiProgressThread> progress(new MpiProgressThread(mpi, ends));
  const SignalsBlocked blocked;
  try {
    std::thread([progress] { progress->run(); }).detach();
  } catch (const std::system_error& error) {
    return fail_errno("cannot start a thread for MPI", error.code().value());
  }
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

MpiProgressThread::News MpiProgressThread::news(std::size_t link) {
  const std::lock_guard lock(mutex_);
  News& known = links_[link].news;
  return {std::exchange(known.come, {}), known.sent, known.lost};
}

void MpiProgressThread::wait(int most_ms) {
  std::unique_lock lock(mutex_);
  waited_for_ = true;
  work_.notify_one();
  changed_.wait_for(lock, std::chrono::milliseconds(most_ms), [this] { return news_; });
  waited_for_ = false;
  news_ = false;
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

// False: it was the last one. Asleep while the owner wants nothing and MPI has nothing of ours.
bool MpiProgressThread::begin_turn(bool idle) {
  std::unique_lock lock(mutex_);
  const auto busy = [this] {
    if (stop_ || waited_for_) return true;
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

// MPI's word on a link: the first error is its last.
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
  link.news.lost = news_ = true;
  changed_.notify_one();
}

bool MpiProgressThread::is_done(Link& link, MpiMessage& message) {
  if (message.done || message.request == nullptr || link.lost) return message.done;
  int done = 0;
  check(link, mpi_.test(&message.request, &done));
  return message.done = !link.lost && done != 0;
}

// These three say whether anything has moved.
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
    ++link.news.sent;
    moved = news_ = true;
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
      mpi_.abandon();  // it holds a message that nobody takes
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
    link.news.come.push_back(std::move(link.in.front()));
    link.in.pop_front();
    moved = news_ = true;
  }
  if (moved) changed_.notify_one();
  return moved;
}

// Memory that MPI still holds must outlive us. There is such only after a failure.
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

Result<std::shared_ptr<MpiStreams>> MpiStreams::start(StreamPlan plan, const MpiLibrary& mpi,
                                                      const std::vector<MpiEnd>& ends) {
  HVD_TRY(auto progress, MpiProgressThread::start(mpi, ends));
  return std::shared_ptr<MpiStreams>(new MpiStreams(std::move(plan), std::move(progress), ends));
}

MpiStreams::MpiStreams(StreamPlan plan, std::shared_ptr<MpiProgressThread> progress,
                       const std::vector<MpiEnd>& ends)
    : Streams(std::move(plan)), progress_(std::move(progress)) {
  for (const MpiEnd& end : ends) links_.push_back({links_.size(), end});
}

MpiStreams::~MpiStreams() {
  if (!in_child_) progress_->stop();
}

MpiStreams::Link& MpiStreams::link(int channel, int host) {
  return *std::find_if(links_.begin(), links_.end(), [=](const Link& link) {
    return link.end.channel == channel && link.end.host == host;
  });
}

void MpiStreams::send(int channel, int host, const void* data, std::size_t bytes) {
  Link& to = link(channel, host);
  const auto* const begin = static_cast<const std::byte*>(data);
  for (std::size_t at = 0; at < bytes; at += MpiMessage::kMostBytes) {
    MpiMessage message = progress_->message();
    message.bytes = std::min(MpiMessage::kMostBytes, bytes - at);
    std::memcpy(message.memory.get(), begin + at, message.bytes);
    progress_->send(to.index, std::move(message));
    ++to.told;
  }
}

void MpiStreams::receive(int channel, int host, void* data, std::size_t bytes) {
  if (bytes > 0) link(channel, host).in.push_back({data, bytes});
}

void MpiStreams::mark() {
  for (Link& link : links_) link.marked = link.told;
}

void MpiStreams::call_due() {
  for (Link& link : links_) link.due = link.marked;
}

void MpiStreams::take_news(Link& link) {
  MpiProgressThread::News news = progress_->news(link.index);
  for (MpiMessage& message : news.come) link.come.push_back(std::move(message));
  link.sent = news.sent;
  link.lost = news.lost;
}

// Whether anything has moved.
bool MpiStreams::deliver(Link& link) {
  bool moved = false;
  while (!link.in.empty() && !link.come.empty()) {
    MpiMessage& message = link.come.front();
    iovec& place = link.in.front();
    const std::size_t bytes = std::min(place.iov_len, message.bytes - link.taken);
    std::memcpy(place.iov_base, message.memory.get() + link.taken, bytes);
    link.taken += bytes;
    place = {static_cast<std::byte*>(place.iov_base) + bytes, place.iov_len - bytes};
    if (place.iov_len == 0) link.in.pop_front();
    if (link.taken == message.bytes) {
      progress_->recycle(std::move(message));
      link.come.pop_front();
      link.taken = 0;
    }
    moved = true;
  }
  return moved;
}

StepBarrier::Turn MpiStreams::progress(bool& moved) {
  StepBarrier::Turn state{true, {}};
  for (Link& link : links_) {
    take_news(link);
    moved = deliver(link) || moved;
    state.over = state.over && link.over();
    if (link.lost && !link.over()) state.lost = link.end.rank;
  }
  return state;
}

StepBarrier::Turn MpiStreams::turn(int most_ms) {
  bool moved = false;
  const StepBarrier::Turn state = progress(moved);
  if (moved || state.over) return state;
  progress_->wait(most_ms);
  return progress(moved);
}

}  // namespace libhvd
