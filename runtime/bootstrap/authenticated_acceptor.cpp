#include "bootstrap/authenticated_acceptor.hpp"

#include "base/connection.hpp"
#include "base/environment.hpp"
#include "common/text.hpp"
#include "common/variables.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

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

constexpr std::string_view kHelloMagic = "hvdhail4";
constexpr std::string_view kChallengeMagic = "hvdhost2";
constexpr std::string_view kWelcomeMagic = "hvdjoin1";

// Writes fields one after the other into a message of fixed length.
class Writer {
 public:
  explicit Writer(std::span<std::uint8_t> message) : rest_(message) {}
  Writer& text(std::string_view value) {
    std::copy(value.begin(), value.end(), rest_.begin());
    rest_ = rest_.subspan(value.size());
    return *this;
  }
  Writer& bytes(Bytes value) {
    std::copy(value.begin(), value.end(), rest_.begin());
    rest_ = rest_.subspan(value.size());
    return *this;
  }
  Writer& number(std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      const auto byte = static_cast<std::uint8_t>(value >> shift);
      bytes({&byte, 1});
    }
    return *this;
  }

 private:
  std::span<std::uint8_t> rest_;
};

std::uint32_t read_number(Bytes bytes) {
  std::uint32_t value = 0;
  for (const std::uint8_t byte : bytes.first(4)) value = (value << 8) | byte;
  return value;
}

bool starts_with(Bytes message, std::string_view magic) {
  return std::equal(magic.begin(), magic.end(), message.begin());
}

Digest digest_at(Bytes message, std::size_t offset) {
  Digest digest{};
  std::copy_n(message.begin() + static_cast<std::ptrdiff_t>(offset), digest.size(), digest.begin());
  return digest;
}

Digest hash_text(const std::string& text) {
  return sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

Digest prove(const JobSecret& secret, std::string_view side, const HelloBytes& hello,
             Bytes server_nonce) {
  std::vector<std::uint8_t> message(side.begin(), side.end());
  message.insert(message.end(), hello.begin(), hello.end());
  message.insert(message.end(), server_nonce.begin(), server_nonce.end());
  return hmac_sha256(secret.key, message);
}

constexpr std::string_view kHelloLabel = "hvd rendezvous hello";
constexpr std::string_view kKeyToServer = "hvd key to host";
constexpr std::string_view kKeyToClient = "hvd key to client";
constexpr std::string_view kKeyOfTls = "hvd key of tls";
constexpr std::string_view kHostDiffers = "hvd rendezvous host encrypts otherwise";
constexpr std::string_view kHostSide = "hvd rendezvous host";
constexpr std::string_view kClientSide = "hvd rendezvous client";

// All of a Hello before its own proof.
constexpr std::size_t kHelloFields = kHelloBytes - sizeof(Digest);

Digest prove_hello(const JobSecret& secret, const HelloBytes& hello) {
  std::vector<std::uint8_t> message(kHelloLabel.begin(), kHelloLabel.end());
  message.insert(message.end(), hello.begin(), hello.begin() + kHelloFields);
  return hmac_sha256(secret.key, message);
}

constexpr const char* kOtherSecret = "it does not hold the same secret (HVD_JOB_KEY)";

std::string refusal(Verdict verdict) {
  switch (verdict) {
    case Verdict::go_on:
      return {};
    case Verdict::other_job:
      return "it belongs to another job";
    case Verdict::other_size:
      return "it was started with another size";
    case Verdict::no_such_rank:
      return "it says that there is no such rank";
    case Verdict::other_ranks:
      return "it starts with other ranks of this job (all that start together give the same list)";
    case Verdict::other_secret:
      return kOtherSecret;
    case Verdict::other_port:
      return "it listens on another port; somebody else has taken this one and relays";
    case Verdict::other_encryption:
      return "its HVD_DATA_TLS differs from this rank's";
  }
  return "it refuses without a known reason";
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

Result<std::vector<std::uint8_t>> read_job_key(const Environment& environment) {
  constexpr std::size_t kKeyBytes = 32;
  const auto text = environment(HVD_ENV_JOB_KEY);
  if (!text || text->empty()) return std::vector<std::uint8_t>();
  auto key = from_hex(*text);
  if (!key || key->size() != kKeyBytes) {
    return fail(HVD_ERROR_ENVIRONMENT, HVD_ENV_JOB_KEY " is not 64 hexadecimal digits");
  }
  return std::move(*key);
}

Result<bool> read_data_tls(const Environment& environment) {
  HVD_TRY(const auto number, read_integer(environment, HVD_ENV_DATA_TLS, 0, 1));
  return number == 1;
}

Result<void> check_encryption(const Environment& environment) {
  HVD_TRY(const auto key, read_job_key(environment));
  if (key.empty())
    return fail(HVD_ERROR_ENVIRONMENT,
                HVD_ENV_DATA_TLS "=1 needs the secret that " HVD_ENV_JOB_KEY
                                 " holds, which hvdrun sets; without hvdrun give all ranks the "
                                 "same 64 hexadecimal digits");
  return Tls::check_available();
}

Error other_encryption(const std::string& with, const std::string& without) {
  return fail(HVD_ERROR_ENVIRONMENT, HVD_ENV_DATA_TLS " is 1 on " + with + " and 0 on " + without +
                                         ": give all ranks the same");
}

std::optional<HelloView> read_hello(const HelloBytes& hello) {
  if (!starts_with(hello, kHelloMagic)) return std::nullopt;
  HelloView view;
  view.job = digest_at(hello, 8);
  view.rank = static_cast<int>(read_number(Bytes(hello).subspan(72)));
  view.size = static_cast<int>(read_number(Bytes(hello).subspan(76)));
  view.ranks = digest_at(hello, 80);
  view.port = static_cast<std::uint16_t>((hello[112] << 8) | hello[113]);
  view.encrypted = hello[114] != 0;
  return view;
}

Verdict judge(const HelloBytes& hello, const HelloView& view, const JobSecret& secret,
              std::uint16_t port) {
  if (!equal_digests(view.job, hash_text(secret.job_id))) return Verdict::other_job;
  if (!equal_digests(digest_at(hello, kHelloFields), prove_hello(secret, hello)))
    return Verdict::other_secret;
  if (!equal_digests(view.ranks, hash_text(secret.ranks))) return Verdict::other_ranks;
  if (view.size != secret.size) return Verdict::other_size;
  if (view.rank <= 0 || view.rank >= secret.size) return Verdict::no_such_rank;
  if (view.port != port) return Verdict::other_port;
  if (view.encrypted != secret.encrypted) return Verdict::other_encryption;
  return Verdict::go_on;
}

SessionKeys session_keys(const JobSecret& secret, const HelloBytes& hello,
                         const HandshakeNonce& server_nonce) {
  return {prove(secret, kKeyToServer, hello, server_nonce),
          prove(secret, kKeyToClient, hello, server_nonce),
          prove(secret, kKeyOfTls, hello, server_nonce)};
}

ChallengeBytes make_challenge(const JobSecret& secret, const HelloBytes& hello, Verdict verdict,
                              const HandshakeNonce& nonce) {
  ChallengeBytes challenge{};
  Digest proof{};
  if (verdict == Verdict::go_on) proof = prove(secret, kHostSide, hello, nonce);
  if (verdict == Verdict::other_encryption) proof = prove(secret, kHostDiffers, hello, nonce);
  const auto code = static_cast<std::uint8_t>(verdict);
  Writer(challenge).text(kChallengeMagic).bytes({&code, 1}).bytes(nonce).bytes(proof);
  return challenge;
}

bool proof_holds(const JobSecret& secret, const HelloBytes& hello, const HandshakeNonce& nonce,
                 const Digest& proof) {
  return equal_digests(proof, prove(secret, kClientSide, hello, nonce));
}

WelcomeBytes make_welcome() {
  WelcomeBytes welcome{};
  Writer(welcome).text(kWelcomeMagic);
  return welcome;
}

HelloBytes make_hello(const JobSecret& secret, int rank, std::uint16_t port,
                      const HandshakeNonce& nonce) {
  HelloBytes hello{};
  Writer(hello)
      .text(kHelloMagic)
      .bytes(hash_text(secret.job_id))
      .bytes(nonce)
      .number(static_cast<std::uint32_t>(rank))
      .number(static_cast<std::uint32_t>(secret.size))
      .bytes(hash_text(secret.ranks))
      .bytes(std::array{static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port),
                        static_cast<std::uint8_t>(secret.encrypted ? 1 : 0)});
  const Digest proof = prove_hello(secret, hello);
  std::copy(proof.begin(), proof.end(), hello.begin() + kHelloFields);
  return hello;
}

Answer answer_challenge(const JobSecret& secret, const HelloBytes& hello,
                        const ChallengeBytes& challenge) {
  if (!starts_with(challenge, kChallengeMagic)) return {};
  const auto verdict = static_cast<Verdict>(challenge[8]);
  HandshakeNonce nonce{};
  std::copy_n(challenge.begin() + 9, nonce.size(), nonce.begin());
  if (verdict != Verdict::go_on) {
    Answer refused{std::nullopt, refusal(verdict)};
    refused.other_encryption =
        verdict == Verdict::other_encryption &&
        equal_digests(digest_at(challenge, 41), prove(secret, kHostDiffers, hello, nonce));
    return refused;
  }
  if (!equal_digests(digest_at(challenge, 41), prove(secret, kHostSide, hello, nonce))) {
    return {std::nullopt, kOtherSecret};
  }
  return {prove(secret, kClientSide, hello, nonce), {}, session_keys(secret, hello, nonce)};
}

}  // namespace libhvd
