#include "transport/socket_streams.hpp"

#include "common/fd.hpp"

#include <algorithm>
#include <cerrno>

#include <poll.h>

namespace libhvd {
namespace {

// Removes `bytes` from the front of the parts.
void skip(std::deque<iovec>& parts, std::size_t bytes) {
  while (bytes > 0) {
    iovec& part = parts.front();
    const std::size_t taken = std::min(bytes, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + taken;
    part.iov_len -= taken;
    bytes -= taken;
    if (part.iov_len == 0) parts.pop_front();
  }
}

}  // namespace

SocketStreams::SocketStreams(StreamPlan plan, std::vector<StreamEnd> ends)
    : Streams(std::move(plan)) {
  for (StreamEnd& end : ends) links_.emplace_back(std::move(end));
}

SocketStreams::Link& SocketStreams::link(int channel, int host) {
  return *std::find_if(links_.begin(), links_.end(), [=](const Link& link) {
    return link.end.channel == channel && link.end.host == host;
  });
}

void SocketStreams::send(int channel, int host, const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  Link& to = link(channel, host);
  to.out.push_back({const_cast<void*>(data), bytes});  // NOLINT: iovec(3type) serves both ways
  to.out_bytes += bytes;
  send_some(to);
}

void SocketStreams::receive(int channel, int host, void* data, std::size_t bytes) {
  if (bytes > 0) link(channel, host).in.push_back({data, bytes});
}

void SocketStreams::mark() {
  for (Link& link : links_) link.marked_bytes = link.out_bytes;
}

void SocketStreams::call_due() {
  for (Link& link : links_) link.due_bytes = link.marked_bytes;
}

// send_some() and receive_some() return whether anything has moved. A connection that takes or
// gives less than it was asked for has no more room or no more data.
bool SocketStreams::send_some(Link& link) {
  bool moved = false;
  while (!link.out.empty() && link.writable && !link.lost) {
    const iovec part = link.out.front();
    const ssize_t count = link.end.socket.send(part.iov_base, part.iov_len);
    if (count < 0) {
      link.writable = false;
      link.lost = !would_block(errno);
      link.garbled = errno == EBADMSG;
      break;
    }
    moved = true;
    link.writable = static_cast<std::size_t>(count) == part.iov_len;
    link.sent_bytes += static_cast<std::size_t>(count);
    skip(link.out, static_cast<std::size_t>(count));
  }
  return moved;
}

bool SocketStreams::receive_some(Link& link) {
  bool moved = false;
  while (!link.in.empty() && link.readable && !link.lost) {
    const iovec part = link.in.front();
    const ssize_t count = link.end.socket.receive(part.iov_base, part.iov_len);
    if (count <= 0) {
      link.readable = false;
      link.lost = count == 0 || !would_block(errno);
      link.garbled = count < 0 && errno == EBADMSG;
      break;
    }
    moved = true;
    link.readable = static_cast<std::size_t>(count) == part.iov_len;
    skip(link.in, static_cast<std::size_t>(count));
  }
  return moved;
}

StepBarrier::Turn SocketStreams::turn(int most_ms) {
  bool moved = false;
  bool over = true;
  std::optional<int> lost;
  bool garbled = false;
  for (Link& link : links_) {
    moved = send_some(link) || moved;
    moved = receive_some(link) || moved;
    over = over && link.over();
    if (!link.lost || link.over()) continue;
    lost = link.end.rank;
    garbled = link.garbled;
  }
  if (!over && !moved) wait(most_ms);
  return {over, lost, garbled};
}

// Waits until a connection is ready. A lost connection would always be ready, so it gets a negative
// descriptor, which poll(2) skips.
void SocketStreams::wait(int most_ms) {
  std::vector<pollfd> entries;
  for (const Link& link : links_) {
    const int events = (link.in.empty() ? 0 : POLLIN) | (link.out.empty() ? 0 : POLLOUT);
    const bool needed = events != 0 && !link.lost;
    entries.push_back({needed ? link.end.socket.get() : -1, static_cast<short>(events), 0});
  }
  if (::poll(entries.data(), entries.size(), most_ms) <= 0) return;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const bool ended = (entries[i].revents & (POLLERR | POLLHUP)) != 0;
    links_[i].readable = links_[i].readable || ended || (entries[i].revents & POLLIN) != 0;
    links_[i].writable = links_[i].writable || ended || (entries[i].revents & POLLOUT) != 0;
  }
}

}  // namespace libhvd
