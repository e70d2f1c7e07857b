#include "bootstrap/authenticated_acceptor.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cerrno>

#include <poll.h>

namespace libhvd {
namespace {

constexpr std::chrono::milliseconds kHandshakePatience{5000};

// The client's end, after its proof.
Result<Connection> secure_guest(Fd socket, const JobSecret& secret, const Digest& key,
                                const Deadline& deadline) {
  if (!secret.encrypted) return Connection(std::move(socket));
  return secure(std::move(socket), Tls::Side::client, key, deadline);
}

}  // namespace

// One connection until it has proven itself.
class AuthenticatedAcceptor::PendingConnection {
 public:
  PendingConnection(Fd socket, const HandshakeNonce& nonce)
      : socket_(std::move(socket)), nonce_(nonce), deadline_(kHandshakePatience) {}

  enum class State { waiting, welcome, refused, other_encryption };

  // Takes what has come and answers it.
  State advance(const JobSecret& secret) {
    if (tls_) return go_on_with_tls();
    const auto buffer =
        hello_read_ ? std::span<std::uint8_t>(proof_) : std::span<std::uint8_t>(hello_);
    const auto count = receive_some(socket_, buffer.subspan(have_));
    if (!count.ok()) return State::refused;
    have_ += *count;
    if (have_ < buffer.size()) return State::waiting;
    return hello_read_ ? check_proof(secret) : answer_hello(secret);
  }

  bool late() const { return deadline_.over(); }
  int socket() const { return socket_.get(); }
  int rank() const { return rank_; }
  // It has sent a Hello that holds.
  bool greeted() const { return hello_read_; }
  Proven take(const JobSecret& secret) {
    return {Connection(std::move(socket_), std::move(tls_)), session_keys(secret, hello_, nonce_)};
  }

 private:
  // Messages this short fit into a fresh connection's buffer; where they do not, we do not wait.
  bool answer(Bytes message) { return send_all(socket_, message, Deadline({})).ok(); }

  State answer_hello(const JobSecret& secret) {
    const auto hello = read_hello(hello_);
    if (!hello) return State::refused;
    const auto own = local_address(socket_);
    const Verdict verdict = judge(hello_, *hello, secret, own ? own->port() : 0);
    const bool sent = answer(make_challenge(secret, hello_, verdict, nonce_));
    rank_ = hello->rank;
    if (verdict == Verdict::other_encryption) return State::other_encryption;
    if (!sent || verdict != Verdict::go_on) return State::refused;
    hello_read_ = true;
    have_ = 0;
    return State::waiting;
  }

  State check_proof(const JobSecret& secret) {
    if (!proof_holds(secret, hello_, nonce_, proof_)) return State::refused;
    if (!secret.encrypted) return answer(make_welcome()) ? State::welcome : State::refused;
    auto tls =
        Tls::start(socket_.get(), Tls::Side::server, session_keys(secret, hello_, nonce_).tls);
    if (!tls.ok()) return State::refused;
    tls_ = std::move(*tls);
    return go_on_with_tls();
  }

  State go_on_with_tls() {
    const auto awaited = tls_->handshake();
    if (!awaited.ok()) return State::refused;
    if (*awaited != 0) return State::waiting;
    const WelcomeBytes welcome = make_welcome();
    const bool sent =
        tls_->send(welcome.data(), welcome.size()) == static_cast<ssize_t>(welcome.size());
    return sent ? State::welcome : State::refused;
  }

  Fd socket_;
  std::unique_ptr<Tls> tls_;  // since the proof, with HVD_DATA_TLS
  HandshakeNonce nonce_;
  Deadline deadline_;
  HelloBytes hello_{};
  Digest proof_{};
  bool hello_read_ = false;
  std::size_t have_ = 0;
  int rank_ = 0;
};

AuthenticatedAcceptor::AuthenticatedAcceptor(std::vector<Fd> listeners, JobSecret secret)
    : listeners_(std::move(listeners)), secret_(std::move(secret)) {}

AuthenticatedAcceptor::~AuthenticatedAcceptor() = default;

Result<std::optional<AcceptedRank>> AuthenticatedAcceptor::next(const Deadline& deadline) {
  while (clients_.empty()) {
    if (deadline.over()) return std::optional<AcceptedRank>();
    std::vector<pollfd> entries;
    for (const Fd& listener : listeners_) entries.push_back({listener.get(), POLLIN, 0});
    for (const PendingConnection& pending_connection : pending_connections_)
      entries.push_back({pending_connection.socket(), POLLIN, 0});
    const Deadline look =
        pending_connections_.empty() ? deadline : deadline.at_most(kHandshakePatience);
    if (::poll(entries.data(), entries.size(), look.poll_ms()) < 0) {
      if (errno == EINTR) continue;
      return fail_errno("cannot wait for connections", errno);
    }
    const std::span<const pollfd> all(entries);
    advance_pending(all.subspan(listeners_.size()));
    for (const Fd& listener : listeners_) HVD_CHECK(take_connections(listener));
  }
  AcceptedRank client = std::move(clients_.front());
  clients_.pop_front();
  return std::optional<AcceptedRank>(std::move(client));
}

// The oldest pending connection gives way when there are too many open files.
Outcome AuthenticatedAcceptor::take_connections(const Fd& listener) {
  while (true) {
    auto accepted = accept_from(listener);
    if (!accepted.ok() && !pending_connections_.empty()) {
      pending_connections_.pop_front();
      continue;
    }
    if (!accepted.ok())
      return with_context("too few files may be open, see ulimit -n", accepted.error());
    Fd socket = std::move(*accepted);
    if (!socket) return Done{};
    HVD_TRY(const HandshakeNonce nonce, random_bytes<sizeof(HandshakeNonce)>());
    pending_connections_.emplace_back(std::move(socket), nonce);
    // Its first message is here already: a place is for those who have more to say.
    if (settle(pending_connections_.back()))
      pending_connections_.pop_back();
    else if (pending_connections_.size() > kMostStrangers)
      make_room();
  }
}

void AuthenticatedAcceptor::make_room() {
  const auto idle = std::find_if(
      pending_connections_.begin(), pending_connections_.end(),
      [](const PendingConnection& pending_connection) { return !pending_connection.greeted(); });
  pending_connections_.erase(idle != pending_connections_.end() ? idle
                                                                : pending_connections_.begin());
}

// Takes what has come from it. True: it has authenticated itself.
bool AuthenticatedAcceptor::settle(PendingConnection& pending_connection) {
  const auto state = pending_connection.advance(secret_);
  if (state == PendingConnection::State::welcome)
    clients_.push_back({pending_connection.rank(), pending_connection.take(secret_)});
  if (state == PendingConnection::State::other_encryption)
    clients_.push_back({pending_connection.rank(), {}, true});
  return state != PendingConnection::State::waiting;
}

// `entries` holds the pending connections in order.
void AuthenticatedAcceptor::advance_pending(std::span<const pollfd> entries) {
  auto entry = entries.begin();
  for (auto pending_connection = pending_connections_.begin();
       pending_connection != pending_connections_.end(); ++entry) {
    const bool done =
        (entry->revents != 0 && settle(*pending_connection)) || pending_connection->late();
    pending_connection =
        done ? pending_connections_.erase(pending_connection) : std::next(pending_connection);
  }
}

Result<Proven> connect_authenticated(const Address& address, const JobSecret& secret, int rank,
                                     const Deadline& deadline, std::string& refusal) {
  HVD_TRY(Fd socket, connect_to(address, deadline));
  HVD_TRY(const HandshakeNonce nonce, random_bytes<sizeof(HandshakeNonce)>());
  const HelloBytes hello = make_hello(secret, rank, address.port(), nonce);
  HVD_CHECK(send_all(socket, hello, deadline));
  ChallengeBytes challenge{};
  HVD_CHECK(receive_all(socket, challenge, deadline));
  const Answer answer = answer_challenge(secret, hello, challenge);
  if (!answer.proof) {
    if (!answer.refusal.empty()) refusal = address.text() + ": " + answer.refusal;
    return fail(answer.other_encryption ? HVD_ERROR_MISMATCH : HVD_ERROR_PEER, answer.refusal);
  }
  HVD_CHECK(send_all(socket, *answer.proof, deadline));
  HVD_TRY(Connection connection,
          secure_guest(std::move(socket), secret, answer.keys.tls, deadline));
  WelcomeBytes welcome{};
  HVD_CHECK(receive_all(connection, welcome, deadline));
  if (welcome != make_welcome()) return fail(HVD_ERROR_PEER, "not of this job");
  return Proven{std::move(connection), answer.keys};
}

}  // namespace libhvd
