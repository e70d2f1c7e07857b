#include "agent/pmix_listener.hpp"

#include "agent/socket_owner.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// A silent connection is looked at this often before it is shut down.
constexpr int kLooks = 5;

std::atomic<PmixListener*> current{nullptr};

// Returns the number that the kernel gives to no other socket, or 0 if it gives none.
std::uint64_t cookie_of(int socket) {
  std::uint64_t cookie = 0;
  socklen_t length = sizeof cookie;
  if (::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &length) != 0) return 0;
  return cookie;
}

// Returns whether the other end has sent nothing. Returns false if the kernel does not count that.
bool is_silent(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  if (length < offsetof(tcp_info, tcpi_data_segs_in) + sizeof info.tcpi_data_segs_in) return false;
  return info.tcpi_segs_in > 0 && info.tcpi_data_segs_in == 0;
}

bool is_closed(const PmixListener::Connection& connection) {
  return cookie_of(connection.socket) != connection.cookie;
}

}  // namespace

PmixListener::PmixListener(const EventLoop& loop, std::chrono::milliseconds limit)
    : interval_(limit / kLooks), timer_(loop, [this] { look(); }), mailbox_(loop) {
  current = this;
}

PmixListener::~PmixListener() {
  current = nullptr;
}

void PmixListener::accepted(int socket) {
  if (const auto owner = owner_of_other_end(socket); owner && owner->user != ::geteuid()) {
    ::shutdown(socket, SHUT_RDWR);
    return;
  }
  const auto cookie = cookie_of(socket);
  if (cookie == 0) return;
  const std::lock_guard lock(mutex_);
  all_.push_back({socket, cookie});
  if (all_.size() >= closed_removed_at_) {
    std::erase_if(all_, is_closed);
    closed_removed_at_ = 2 * all_.size() + 64;
  }
  silent_.push_back({socket, cookie});
  if (silent_.size() > 1) return;
  mailbox_.post([this] {
    if (!timer_.pending()) timer_.start(interval_);
  });
}

std::vector<PmixListener::Connection> PmixListener::open_connections() {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, is_closed);
  return all_;
}

void PmixListener::look() {
  const std::lock_guard lock(mutex_);
  std::erase_if(silent_, [](Connection& connection) {
    if (is_closed(connection) || !is_silent(connection.socket)) return true;
    if (++connection.looks < kLooks) return false;
    ::shutdown(connection.socket, SHUT_RDWR);
    return true;
  });
  if (!silent_.empty()) timer_.start(interval_);
}

}  // namespace hvdrun

// Exported because libc has the same name, and found before libc's because it is the program's.
extern "C" __attribute__((visibility("default"))) int accept(int listener, sockaddr* address,
                                                             socklen_t* length) {
  const int socket = ::accept4(listener, address, length, 0);
  auto* const watch = hvdrun::current.load();
  if (socket >= 0 && watch != nullptr) watch->accepted(socket);
  return socket;
}
