#include "transport/mpi_streams.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace libhvd {

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
    ++to.queued;
  }
}

void MpiStreams::receive(int channel, int host, void* data, std::size_t bytes) {
  if (bytes > 0) link(channel, host).in.push_back({data, bytes});
}

void MpiStreams::mark() {
  for (Link& link : links_) link.marked = link.queued;
}

void MpiStreams::call_due() {
  for (Link& link : links_) link.due = link.marked;
}

void MpiStreams::take_progress(Link& link) {
  MpiProgressThread::Progress known = progress_->take_progress(link.index);
  for (MpiMessage& message : known.received) link.received.push_back(std::move(message));
  link.sent = known.sent;
  link.lost = known.lost;
}

// Copies received messages to where they go. Returns whether anything has moved.
bool MpiStreams::deliver(Link& link) {
  bool moved = false;
  while (!link.in.empty() && !link.received.empty()) {
    MpiMessage& message = link.received.front();
    iovec& place = link.in.front();
    const std::size_t bytes = std::min(place.iov_len, message.bytes - link.taken);
    std::memcpy(place.iov_base, message.memory.get() + link.taken, bytes);
    link.taken += bytes;
    place = {static_cast<std::byte*>(place.iov_base) + bytes, place.iov_len - bytes};
    if (place.iov_len == 0) link.in.pop_front();
    if (link.taken == message.bytes) {
      progress_->recycle(std::move(message));
      link.received.pop_front();
      link.taken = 0;
    }
    moved = true;
  }
  return moved;
}

StepBarrier::Turn MpiStreams::progress(bool& moved) {
  StepBarrier::Turn state{true, {}};
  for (Link& link : links_) {
    take_progress(link);
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
