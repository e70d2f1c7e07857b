#include "bootstrap/authenticated_acceptor.hpp"

#include "common/system.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>

#include <poll.h>

namespace libhvd {
namespace {

constexpr std::chrono::milliseconds kHandshakeTimeout{5000};

// Starts TLS on the client's side if the job encrypts.
Result<Connection> secure_client(Fd socket, const JobSecret& secret, const Digest& key,
                                 const Deadline& deadline) {
  if (!secret.encrypted) return Connection(std::move(socket));
  return secure(std::move(socket), Tls::Side::client, key, deadline);
}

}  // namespace

// One connection until it has proven itself.
class AuthenticatedAcceptor::PendingConnection {
 public:
  PendingConnection(Fd socket, const HandshakeNonce& nonce)
      : socket_(std::move(socket)), nonce_(nonce), deadline_(kHandshakeTimeout) {}

  enum class State { waiting, welcome, refused, other_encryption };

  // Reads what has arrived and answers it.
  State advance(const JobSecret& secret) {
    if (tls_) return continue_tls();
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
  // Returns the event of poll(2) after which advance() can do more.
  short awaited() const { return awaited_; }
  int rank() const { return rank_; }
  // Returns whether the client has sent a valid Hello.
  bool has_valid_hello() const { return hello_read_; }
  // Hands over the connection. Call it once, after State::welcome.
  AuthenticatedConnection take(const JobSecret& secret) {
    return {Connection(std::move(socket_), std::move(tls_)), session_keys(secret, hello_, nonce_)};
  }

 private:
  // Sends without waiting: messages this short fit into the buffer of a new connection. Returns
  // false if this one does not.
  bool answer(Bytes message) { return send_all(socket_, message, Deadline({})).ok(); }

  State answer_hello(const JobSecret& secret) {
    const auto hello = read_hello(hello_);
    if (!hello) return State::refused;
    const auto own = local_address(socket_);
    const Verdict verdict = judge(hello_, *hello, secret, own ? own->port() : 0);
    const bool sent = answer(make_challenge(secret, hello_, verdict, nonce_));
    rank_ = hello->rank;
    if (verdict == Verdict::other_encryption) return State::other_encryption;
    if (!sent || verdict != Verdict::accepted) return State::refused;
    hello_read_ = true;
    have_ = 0;
    return State::waiting;
  }

  State check_proof(const JobSecret& secret) {
    if (!is_valid_proof(secret, hello_, nonce_, proof_)) return State::refused;
    if (!secret.encrypted) return answer(make_welcome()) ? State::welcome : State::refused;
    auto tls =
        Tls::start(socket_.get(), Tls::Side::server, session_keys(secret, hello_, nonce_).tls);
    if (!tls.ok()) return State::refused;
    tls_ = std::move(*tls);
    return continue_tls();
  }

  State continue_tls() {
    const auto awaited = tls_->handshake();
    if (!awaited.ok()) return State::refused;
    awaited_ = *awaited;
    if (awaited_ != 0) return State::waiting;
    const WelcomeBytes welcome = make_welcome();
    const bool sent =
        tls_->send(welcome.data(), welcome.size()) == static_cast<ssize_t>(welcome.size());
    return sent ? State::welcome : State::refused;
  }

  Fd socket_;
  std::unique_ptr<Tls> tls_;  // from the Proof on, with HVD_DATA_TLS
  HandshakeNonce nonce_;
  Deadline deadline_;
  HelloBytes hello_{};
  Digest proof_{};
  bool hello_read_ = false;
  std::size_t have_ = 0;
  short awaited_ = POLLIN;
  int rank_ = 0;
};

AuthenticatedAcceptor::AuthenticatedAcceptor(std::vector<Fd> listeners, JobSecret secret)
    : listeners_(std::move(listeners)), secret_(std::move(secret)) {}

AuthenticatedAcceptor::~AuthenticatedAcceptor() = default;

Result<std::optional<AcceptedRank>> AuthenticatedAcceptor::next(const Deadline& deadline) {
  while (accepted_.empty()) {
    if (deadline.over()) return std::optional<AcceptedRank>();
    std::vector<pollfd> entries;
    for (const Fd& listener : listeners_) entries.push_back({listener.get(), POLLIN, 0});
    for (const PendingConnection& pending_connection : pending_connections_)
      entries.push_back({pending_connection.socket(), pending_connection.awaited(), 0});
    const Deadline look =
        pending_connections_.empty() ? deadline : deadline.at_most(kHandshakeTimeout);
    if (poll_until(entries, look) < 0) {
      if (errno == EINTR) continue;
      return fail_errno("cannot wait for connections", errno);
    }
    const std::span<const pollfd> all(entries);
    advance_pending(all.subspan(listeners_.size()));
    for (const Fd& listener : listeners_) HVD_CHECK(take_connections(listener));
  }
  AcceptedRank client = std::move(accepted_.front());
  accepted_.pop_front();
  return std::optional<AcceptedRank>(std::move(client));
}

// Accepts all waiting connections. If too many files are open, drops the oldest pending connection.
Result<void> AuthenticatedAcceptor::take_connections(const Fd& listener) {
  while (true) {
    auto accepted = accept_from(listener);
    if (!accepted.ok() && !pending_connections_.empty()) {
      pending_connections_.pop_front();
      continue;
    }
    if (!accepted.ok())
      return with_context("too few files may be open, see ulimit -n", accepted.error());
    Fd socket = std::move(*accepted);
    if (!socket) return {};
    HVD_TRY(const HandshakeNonce nonce, random_bytes<sizeof(HandshakeNonce)>());
    pending_connections_.emplace_back(std::move(socket), nonce);
    // The Hello has arrived already (TCP_DEFER_ACCEPT). Reading it now shows whether the connection
    // needs to stay.
    if (advance(pending_connections_.back()))
      pending_connections_.pop_back();
    else if (pending_connections_.size() > kMostPending)
      make_room();
  }
}

void AuthenticatedAcceptor::make_room() {
  const auto idle = std::find_if(pending_connections_.begin(), pending_connections_.end(),
                                 [](const PendingConnection& pending_connection) {
                                   return !pending_connection.has_valid_hello();
                                 });
  pending_connections_.erase(idle != pending_connections_.end() ? idle
                                                                : pending_connections_.begin());
}

// Reads from a pending connection. Returns whether it is done, accepted or refused.
bool AuthenticatedAcceptor::advance(PendingConnection& pending_connection) {
  const auto state = pending_connection.advance(secret_);
  if (state == PendingConnection::State::welcome)
    accepted_.push_back({pending_connection.rank(), pending_connection.take(secret_)});
  if (state == PendingConnection::State::other_encryption)
    accepted_.push_back({pending_connection.rank(), {}, true});
  return state != PendingConnection::State::waiting;
}

// Reads from the pending connections that poll(2) has reported in `entries`, which has their order.
void AuthenticatedAcceptor::advance_pending(std::span<const pollfd> entries) {
  auto entry = entries.begin();
  for (auto pending_connection = pending_connections_.begin();
       pending_connection != pending_connections_.end(); ++entry) {
    const bool done =
        (entry->revents != 0 && advance(*pending_connection)) || pending_connection->late();
    pending_connection =
        done ? pending_connections_.erase(pending_connection) : std::next(pending_connection);
  }
}

Result<AuthenticatedConnection> connect_authenticated(const Address& address,
                                                      const JobSecret& secret, int rank,
                                                      const Deadline& deadline,
                                                      std::string& refusal) {
  HVD_TRY(Fd socket, connect_to(address, deadline));
  HVD_TRY(const HandshakeNonce nonce, random_bytes<sizeof(HandshakeNonce)>());
  const HelloBytes hello = make_hello(secret, rank, address.port(), nonce);
  HVD_CHECK(send_all(socket, hello, deadline));
  ChallengeBytes challenge{};
  HVD_CHECK(receive_all(socket, challenge, deadline));
  return complete_handshake(std::move(socket), address, secret, hello, challenge, deadline,
                            refusal);
}

Result<AuthenticatedConnection> complete_handshake(Fd socket, const Address& address,
                                                   const JobSecret& secret, const HelloBytes& hello,
                                                   const ChallengeBytes& challenge,
                                                   const Deadline& deadline, std::string& refusal) {
  const Answer answer = answer_challenge(secret, hello, challenge);
  if (!answer.proof) {
    if (!answer.refusal.empty()) refusal = address.text() + ": " + answer.refusal;
    return fail(answer.other_encryption ? HVD_ERROR_MISMATCH : HVD_ERROR_PEER, answer.refusal);
  }
  HVD_CHECK(send_all(socket, *answer.proof, deadline));
  HVD_TRY(Connection connection,
          secure_client(std::move(socket), secret, answer.keys.tls, deadline));
  WelcomeBytes welcome{};
  HVD_CHECK(receive_all(connection, welcome, deadline));
  if (welcome != make_welcome()) return fail(HVD_ERROR_PEER, "not of this job");
  return AuthenticatedConnection{std::move(connection), answer.keys};
}

}  // namespace libhvd
