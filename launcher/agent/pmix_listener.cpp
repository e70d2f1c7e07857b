#include "agent/pmix_listener.hpp"

#include "agent/pmix_greeting.hpp"
#include "agent/socket_owner.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
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

// Ends the connection, so that its reader finds nothing but its end: not even what has come before.
void refuse(int socket) {
  ::shutdown(socket, SHUT_RDWR);
  std::array<char, 4096> dropped;
  while (::recv(socket, dropped.data(), dropped.size(), MSG_DONTWAIT) > 0) {
  }
}

// Returns the rank in the client's greeting, and leaves the greeting to be read. Returns nullopt if
// none comes in time.
std::optional<std::uint32_t> read_rank(int socket, std::chrono::milliseconds limit) {
  pollfd greeted{socket, POLLIN, 0};
  if (::poll(&greeted, 1, static_cast<int>(limit.count())) != 1) return std::nullopt;
  std::array<char, kLargestPmixGreeting> bytes;
  const auto size = ::recv(socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size <= 0) return std::nullopt;
  return rank_of_pmix_greeting({bytes.data(), static_cast<std::size_t>(size)});
}

bool is_closed(const PmixListener::Connection& connection) {
  return cookie_of(connection.socket) != connection.cookie;
}

}  // namespace

PmixListener::PmixListener(const EventLoop& loop, std::chrono::milliseconds limit, Refuses refuses)
    : interval_(limit / kLooks),
      refuses_(std::move(refuses)),
      timer_(loop, [this] { look(); }),
      mailbox_(loop) {
  current = this;
}

PmixListener::~PmixListener() {
  current = nullptr;
}

void PmixListener::accepted(int socket) {
  if (const auto owner = owner_of_other_end(socket); owner && owner->user != ::geteuid())
    return refuse(socket);
  if (note(socket) && is_second_of_its_rank(socket)) refuse(socket);
}

// Returns whether the connection can be found again.
bool PmixListener::note(int socket) {
  const auto cookie = cookie_of(socket);
  if (cookie == 0) return false;
  const std::lock_guard lock(mutex_);
  all_.push_back({socket, cookie});
  if (all_.size() >= closed_removed_at_) {
    std::erase_if(all_, is_closed);
    closed_removed_at_ = 2 * all_.size() + 64;
  }
  silent_.push_back({socket, cookie});
  if (silent_.size() == 1)
    mailbox_.post([this] {
      if (!timer_.pending()) timer_.start(interval_);
    });
  return true;
}

// Waits a while for the greeting, as libpmix does after this without a limit.
bool PmixListener::is_second_of_its_rank(int socket) {
  const auto rank = read_rank(socket, interval_);
  if (!rank) return false;
  const auto open = open_connections();
  {
    const std::lock_guard lock(mutex_);
    const auto own = std::ranges::find(all_, socket, &Connection::socket);
    if (own != all_.end()) own->rank = rank;
  }
  const bool has_another = std::ranges::any_of(open, [&](const Connection& connection) {
    return connection.socket != socket && connection.rank == rank;
  });
  return has_another && refuses_(*rank);
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
    refuse(connection.socket);
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
