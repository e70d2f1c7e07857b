#include "channels/tls_listener.hpp"

#include "common/net/address.hpp"
#include "common/net/tcp.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include <sys/socket.h>

namespace hvdrun {
namespace {

// A TLS record of a handshake: type 22, legacy version 3.x (RFC 8446, 5.1).
constexpr std::string_view kTlsBegins{"\x16\x03", 2};

}  // namespace

// A connection until its hello was accepted.
class TlsListener::AgentCandidate final : public Candidate {
 public:
  AgentCandidate(Fd socket, const TlsKey& key, const Events& events)
      : socket_(std::move(socket)), key_(key), events_(events) {}

  State advance() override {
    if (!tls_) {
      if (const State begun = begin_tls(); !tls_) return begun;
    }
    if (awaited_ != 0) {
      const auto awaited = tls_->handshake();
      if (!awaited) return State::refused;
      awaited_ = *awaited;
      if (awaited_ != 0) return State::waiting;
    }
    return read_hello();
  }
  bool has_shown_key() const override { return tls_ && tls_->client_has_shown_key(); }
  short awaited() const override { return awaited_ != 0 ? awaited_ : POLLIN; }
  int socket() const override { return socket_.get(); }

  const AgentHello& hello() const { return hello_; }
  // Hands over the connection. Call it once, after State::admitted.
  Connection take() { return {std::move(socket_), std::move(tls_)}; }

 private:
  // Starts TLS if the first bytes begin a handshake.
  State begin_tls() {
    std::array<char, 2> first{};
    const ssize_t got = ::recv(socket_.get(), first.data(), first.size(), MSG_PEEK);
    if (got < 0 && would_block(errno)) return State::waiting;
    if (got <= 0 || kTlsBegins.substr(0, static_cast<std::size_t>(got)) !=
                        std::string_view(first.data(), static_cast<std::size_t>(got)))
      return State::refused;
    auto tls = Tls::start(socket_.get(), Tls::Side::server, key_);
    if (!tls) return State::refused;
    tls_ = std::move(*tls);
    return State::waiting;
  }

  State read_hello() {
    // Reads no more than a hello: the data after it is for the link.
    std::array<char, kMaxAgentHello> buffer;  // NOLINT: filled by receive
    const ssize_t got = tls_->receive(buffer.data(), buffer.size() - received_.size());
    if (got < 0 && would_block(errno)) return State::waiting;
    if (got <= 0) return State::refused;
    received_.append(buffer.data(), static_cast<std::size_t>(got));
    const auto hello = parse_agent_hello(received_);
    if (!hello) return State::refused;
    if (!*hello) return State::waiting;
    hello_ = **hello;
    const auto number = events_.number_of(hello_);
    if (!number) return State::refused;
    const std::string accept = pack_agent_accept(*number);
    // The first data always fits into the socket's buffer, unless the connection is lost.
    const bool sent = tls_->send(accept.data(), accept.size()) == kAgentAcceptSize;
    return sent ? State::admitted : State::refused;
  }

  Fd socket_;
  const TlsKey& key_;
  const Events& events_;
  std::unique_ptr<Tls> tls_;  // null until its first bytes
  short awaited_ = POLLIN;    // by the handshake; 0 once that is done
  std::string received_;      // of its hello
  AgentHello hello_;
};

Result<std::unique_ptr<TlsListener>> TlsListener::open(const EventLoop& loop, const TlsKey& key,
                                                       const std::vector<std::string>& addresses,
                                                       Limits limits, Events events) {
  if (const auto available = Tls::check_available(); !available)
    return fail("TLS for the agents: " + available.error());
  std::unique_ptr<TlsListener> listener(new TlsListener(loop, key, std::move(events)));
  Error last{"this host has no address at which agents could reach it", kExitLauncher};
  std::vector<Fd> sockets;
  for (const auto& address : addresses) {
    if (auto listening = listener->listen_on(address))
      sockets.push_back(std::move(*listening));
    else
      last = listening.error();
  }
  if (sockets.empty()) return last;
  auto acceptor = Acceptor::open(std::move(sockets), limits, [raw = listener.get()](Fd socket) {
    return std::make_unique<AgentCandidate>(std::move(socket), raw->key_, raw->events_);
  });
  if (!acceptor) return fail_errno("cannot wait for agents", acceptor.error());
  listener->acceptor_ = std::move(*acceptor);
  listener->ready_ = FdEvent(loop, listener->acceptor_->fd(), FdEvent::readable,
                             [raw = listener.get()] { raw->accept_agents(); });
  listener->ready_.enable();
  return listener;
}

TlsListener::TlsListener(const EventLoop& loop, TlsKey key, Events events)
    : key_(std::move(key)), events_(std::move(events)), wake_(loop, [this] { accept_agents(); }) {}

TlsListener::~TlsListener() = default;

Result<Fd> TlsListener::listen_on(const std::string& text) {
  const auto address = parse_address(text);
  if (!address) return fail(text + " is no IP address");
  auto socket = make_listener(*address);
  if (!socket) return fail_errno("cannot listen on " + text, socket.error());
  const auto own = local_address(socket->get());
  addresses_.push_back({text, own ? own->port() : std::uint16_t{0}});
  return std::move(*socket);
}

void TlsListener::close() {
  if (!acceptor_) return;
  acceptor_->drop_pending();
  refused_ = acceptor_->refused();
  ready_.reset();
  wake_.cancel();
  acceptor_.reset();
}

void TlsListener::accept_agents() {
  // on_agent() of the last agent closes the listener, and may destroy this object.
  const std::weak_ptr<Acceptor> open = acceptor_;
  while (const auto acceptor = open.lock()) {
    const auto admitted = acceptor->next();
    if (!admitted) break;
    auto& agent = static_cast<AgentCandidate&>(*admitted);
    const AgentHello hello = agent.hello();
    events_.on_agent(hello, agent.take());
  }
  if (open.expired()) return;
  const auto wake = acceptor_->wake();
  if (!wake) return wake_.cancel();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake - Acceptor::Clock::now());
  wake_.start(std::max(left, std::chrono::milliseconds(0)));
}

}  // namespace hvdrun
