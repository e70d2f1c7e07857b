#include "channels/tls_listener.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

using Clock = std::chrono::steady_clock;
using Status = TlsStream::Status;

constexpr int kBacklog = 4096;       // the kernel lowers it to net.core.somaxconn
constexpr int kAcceptedAtOnce = 32;  // before the loop handles its other events
constexpr std::chrono::milliseconds kPause{100};
constexpr int kDeferAccept = 5;  // seconds
// A TLS record of a handshake: type 22, legacy version 3.x (RFC 8446, 5.1).
constexpr std::string_view kTlsBegins{"\x16\x03", 2};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// Parses a numeric address, with port 0.
Result<SocketAddress> socket_address(const std::string& text) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    address.size = sizeof *v4;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    address.size = sizeof *v6;
  } else {
    return fail(text + " is no IP address");
  }
  return address;
}

std::uint16_t port_of(int socket) {
  SocketAddress own;
  own.size = sizeof own.storage;
  if (::getsockname(socket, own.get(), &own.size) != 0) return 0;
  return ntohs(own.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&own.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_port);
}

}  // namespace

struct TlsListener::Listener {
  Fd socket;
  FdEvent readable;
};

struct TlsListener::PendingConnection {
  Fd socket;                        // until TLS has it
  std::optional<TlsStream> stream;  // nullopt until its first bytes
  bool has_key = false;
  std::string received;  // of its hello
  Clock::time_point deadline;
  FdEvent readable;
  FdEvent writable;
  PendingConnections::iterator position;
};

Result<std::unique_ptr<TlsListener>> TlsListener::open(const EventLoop& loop, const LinkKey& key,
                                                       const std::vector<std::string>& addresses,
                                                       Limits limits, Events events) {
  HVD_TRY(TlsContext context, TlsContext::make(TlsContext::Side::server, key));
  std::unique_ptr<TlsListener> listener(
      new TlsListener(loop, std::move(context), limits, std::move(events)));
  Error last{"this host has no address at which agents could reach it", kExitLauncher};
  for (const auto& address : addresses)
    if (auto listening = listener->listen_on(address); !listening) last = listening.error();
  if (listener->listeners_.empty()) return last;
  return listener;
}

TlsListener::TlsListener(const EventLoop& loop, TlsContext context, Limits limits, Events events)
    : loop_(loop),
      context_(std::move(context)),
      limits_(limits),
      events_(std::move(events)),
      expiry_(loop, [this] { drop_expired(); }),
      pause_(loop, [this] {
        for (auto& listener : listeners_) listener->readable.enable();
      }) {}

TlsListener::~TlsListener() = default;

Result<void> TlsListener::listen_on(const std::string& text) {
  HVD_TRY(SocketAddress address, socket_address(text));
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket)
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &kDeferAccept, sizeof kDeferAccept);
  if (!socket || ::bind(socket.get(), address.get(), address.size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0)
    return fail_errno("cannot listen on " + text, errno);
  addresses_.push_back({text, port_of(socket.get())});
  const auto& made = listeners_.emplace_back(std::make_shared<Listener>());
  made->readable = FdEvent(loop_, socket.get(), FdEvent::readable,
                           [this, listener = std::weak_ptr(made)] { accept_some(listener); });
  made->readable.enable();
  made->socket = std::move(socket);
  return {};
}

void TlsListener::close() {
  listeners_.clear();
  pause_.cancel();
  expiry_.cancel();
  while (!pending_.empty()) drop(*pending_.front());
}

// Accepts some connections. One of them may be the last agent: then the listener is closed, and
// this object may be destroyed.
void TlsListener::accept_some(const std::weak_ptr<const Listener>& listener) {
  for (int i = 0; i < kAcceptedAtOnce && !listener.expired(); ++i) {
    Fd socket(
        ::accept4(listener.lock()->socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      admit(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      if (make_room()) continue;
      for (auto& waiting : listeners_) waiting->readable.disable();
      pause_.start(kPause);
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;  // EAGAIN, or an error of that one connection (accept(2))
    }
  }
}

// Drops the connection that has waited longest, of those that have not shown the key if there are
// any. Returns whether there was one.
bool TlsListener::make_room() {
  if (pending_.empty()) return false;
  const auto keyless = std::find_if(pending_.begin(), pending_.end(), [](const auto& pending) {
    return !pending->stream || !pending->stream->was_greeted();
  });
  drop(keyless != pending_.end() ? **keyless : *pending_.front());
  return true;
}

void TlsListener::admit(Fd socket) {
  if (pending_.size() >= limits_.waiting) make_room();
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto made = std::make_unique<PendingConnection>();
  PendingConnection& pending = *made;
  pending.deadline = Clock::now() + limits_.timeout;
  pending.readable =
      FdEvent(loop_, socket.get(), FdEvent::readable, [this, &pending] { advance(pending); });
  pending.readable.enable();
  pending.socket = std::move(socket);
  pending.position = pending_.insert(pending_.end(), std::move(made));
  start_expiry();
  advance(pending);  // its first bytes are here already; the proof of the key is a later message
}

void TlsListener::advance(PendingConnection& pending) {
  if (!pending.stream && !begin_tls(pending)) return;
  if (pending.has_key) return read_agent_hello(pending);
  switch (pending.stream->handshake()) {
    case Status::done:
      pending.has_key = true;
      if (pending.writable) pending.writable.disable();
      return read_agent_hello(pending);
    case Status::want_read:
      if (pending.writable) pending.writable.disable();
      return;
    case Status::want_write:
      if (!pending.writable)
        pending.writable = FdEvent(loop_, pending.stream->fd(), FdEvent::writable,
                                   [this, &pending] { advance(pending); });
      pending.writable.enable();
      return;
    case Status::closed:
    case Status::failed:
      return drop(pending);
  }
}

// Starts TLS if the first bytes begin a handshake. Returns false if there are none yet, or if it
// has dropped the connection.
bool TlsListener::begin_tls(PendingConnection& pending) {
  std::array<char, 2> first{};
  const ssize_t got = ::recv(pending.socket.get(), first.data(), first.size(), MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0 || kTlsBegins.substr(0, static_cast<std::size_t>(got)) !=
                      std::string_view(first.data(), static_cast<std::size_t>(got))) {
    drop(pending);
    return false;
  }
  auto stream = context_.wrap(std::move(pending.socket));
  if (!stream) {
    drop(pending);
    return false;
  }
  pending.stream.emplace(std::move(*stream));
  return true;
}

void TlsListener::read_agent_hello(PendingConnection& pending) {
  // Reads no more than a hello: the data after it is for the link.
  std::array<char, kMaxAgentHello> buffer;  // NOLINT: filled by read
  const auto got = pending.stream->read(buffer.data(), buffer.size() - pending.received.size());
  if (got.status == Status::want_read || got.status == Status::want_write) return;
  if (got.status != Status::done) return drop(pending);
  pending.received.append(buffer.data(), got.bytes);
  const auto hello = parse_agent_hello(pending.received);
  if (!hello) return drop(pending);
  if (*hello) accept_agent(pending, **hello);
}

void TlsListener::accept_agent(PendingConnection& pending, const AgentHello& hello) {
  const auto number = events_.number_of(hello);
  if (!number) return drop(pending);
  const std::string accept = pack_agent_accept(*number);
  // The first data always fits into the socket's buffer, unless the connection is lost.
  if (pending.stream->write(accept.data(), accept.size()).bytes != accept.size())
    return drop(pending);
  pending.readable.reset();
  pending.writable.reset();
  const std::unique_ptr<PendingConnection> keep = std::move(*pending.position);
  pending_.erase(keep->position);
  events_.on_agent(hello, std::move(*keep->stream));  // may destroy this
}

void TlsListener::drop(const PendingConnection& pending) {
  if (!pending.has_key) ++refused_;
  pending_.erase(pending.position);
}

void TlsListener::drop_expired() {
  const auto now = Clock::now();
  while (!pending_.empty() && pending_.front()->deadline <= now) drop(*pending_.front());
  start_expiry();
}

void TlsListener::start_expiry() {
  if (pending_.empty() || expiry_.pending()) return;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      pending_.front()->deadline - Clock::now());
  expiry_.start(std::max(left, std::chrono::milliseconds(0)) + std::chrono::milliseconds(1));
}

}  // namespace hvdrun
