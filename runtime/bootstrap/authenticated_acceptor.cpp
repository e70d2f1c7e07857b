#include "bootstrap/authenticated_acceptor.hpp"

#include "common/net/acceptor.hpp"
#include "common/system.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include <poll.h>

namespace libhvd {
namespace {

// Other threads may close files soon. A rank that has too few for longer says so, and does not wait
// for connections that it cannot take.
constexpr std::chrono::milliseconds kShortage{1000};

Error too_few_files(int error) {
  return fail_errno("too few files may be open, see ulimit -n: cannot accept a connection", error);
}

// Starts TLS on the client's side if the job encrypts.
Result<Connection> secure_client(Fd socket, const JobSecret& secret, const Digest& key,
                                 const Deadline& deadline) {
  if (!secret.encrypted) return Connection(std::move(socket));
  return secure(std::move(socket), Tls::Side::client, key, deadline);
}

class RankCandidate final : public Candidate {
 public:
  RankCandidate(Fd socket, const JobSecret& secret, const HandshakeNonce& nonce)
      : socket_(std::move(socket)), secret_(secret), nonce_(nonce) {}

  State advance() override {
    if (tls_) return continue_tls();
    const auto buffer =
        hello_read_ ? std::span<std::uint8_t>(proof_) : std::span<std::uint8_t>(hello_);
    const auto count = receive_some(socket_, buffer.subspan(have_));
    if (!count.ok()) return State::refused;
    have_ += *count;
    if (have_ < buffer.size()) return State::waiting;
    return hello_read_ ? check_proof() : answer_hello();
  }
  bool has_shown_key() const override { return hello_read_; }
  short awaited() const override { return awaited_; }
  int socket() const override { return socket_.get(); }

  // Hands over the connection. Call it once, after State::admitted.
  AcceptedRank take() {
    if (other_encryption_) return {rank_, {}, true};
    return {
        rank_,
        {Connection(std::move(socket_), std::move(tls_)), session_keys(secret_, hello_, nonce_)}};
  }

 private:
  // Sends without waiting: messages this short fit into the buffer of a new connection. Returns
  // false if this one does not.
  bool answer(Bytes message) { return send_all(socket_, message, Deadline({})).ok(); }

  State answer_hello() {
    const auto hello = read_hello(hello_);
    if (!hello) return State::refused;
    const auto own = local_address(socket_.get());
    const Verdict verdict = judge(hello_, *hello, secret_, own ? own->port() : 0);
    const bool sent = answer(make_challenge(secret_, hello_, verdict, nonce_));
    rank_ = hello->rank;
    other_encryption_ = verdict == Verdict::other_encryption;
    if (other_encryption_) return State::admitted;
    if (!sent || verdict != Verdict::accepted) return State::refused;
    hello_read_ = true;
    have_ = 0;
    return State::waiting;
  }

  State check_proof() {
    if (!is_valid_proof(secret_, hello_, nonce_, proof_)) return State::refused;
    if (!secret_.encrypted) return answer(make_welcome()) ? State::admitted : State::refused;
    auto tls =
        start_tls(socket_.get(), Tls::Side::server, session_keys(secret_, hello_, nonce_).tls);
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
    return sent ? State::admitted : State::refused;
  }

  Fd socket_;
  std::unique_ptr<Tls> tls_;  // from the Proof on, with HVD_DATA_TLS
  const JobSecret& secret_;
  HandshakeNonce nonce_;
  HelloBytes hello_{};
  Digest proof_{};
  bool hello_read_ = false;
  bool other_encryption_ = false;
  std::size_t have_ = 0;
  short awaited_ = POLLIN;
  int rank_ = 0;
};

}  // namespace

AuthenticatedAcceptor::AuthenticatedAcceptor(std::vector<Fd> listeners, JobSecret secret)
    : listeners_(std::move(listeners)), secret_(std::move(secret)) {}

AuthenticatedAcceptor::~AuthenticatedAcceptor() = default;

Result<void> AuthenticatedAcceptor::open() {
  auto opened = Acceptor::open(std::move(listeners_), {}, [this](Fd socket) {
    const auto nonce = random_bytes<sizeof(HandshakeNonce)>();
    return nonce.ok() ? std::make_unique<RankCandidate>(std::move(socket), secret_, *nonce)
                      : nullptr;
  });
  if (!opened.ok()) return too_few_files(opened.error());
  acceptor_ = std::move(*opened);
  return {};
}

Result<std::optional<AcceptedRank>> AuthenticatedAcceptor::next(const Deadline& deadline) {
  if (!acceptor_) HVD_CHECK(open());
  while (true) {
    if (const auto admitted = acceptor_->next())
      return std::optional(static_cast<RankCandidate&>(*admitted).take());
    if (deadline.over()) return std::optional<AcceptedRank>();
    const auto now = Acceptor::Clock::now();
    const auto short_since = acceptor_->short_since();
    if (short_since && now - *short_since > kShortage) return too_few_files(EMFILE);
    Deadline look = deadline;
    if (const auto wake = acceptor_->wake())
      look = deadline.at_most(std::max(std::chrono::ceil<std::chrono::milliseconds>(*wake - now),
                                       std::chrono::milliseconds(0)));
    pollfd entry{acceptor_->fd(), POLLIN, 0};
    if (::poll(&entry, 1, look.poll_ms()) < 0 && errno != EINTR)
      return fail_errno("cannot wait for connections", errno);
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
