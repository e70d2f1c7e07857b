// Both ends of the handshake over sockets: who listens and lets in only those of the job, and who
// seeks to be let in. The rendezvous and the bridges between hosts use it.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "bootstrap/socket.hpp"
#include "common/sha256.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>
struct pollfd;

namespace libhvd {

// The job's secret, HVD_JOB_KEY, and whether what goes to other hosts is encrypted, HVD_DATA_TLS.

// 32 bytes; none when the variable is unset. Error (HVD_ERROR_ENVIRONMENT): it is no key.
Result<std::vector<std::uint8_t>> read_job_key(const Environment& environment);

// Error (HVD_ERROR_ENVIRONMENT): it is neither 0 nor 1.
Result<bool> read_data_tls(const Environment& environment);

// What encryption takes: the job's key, and OpenSSL.
Result<void> check_encryption(const Environment& environment);

// Where ranks differ in it, in the same words on all of them.
Error other_encryption(const std::string& with, const std::string& without);

// The handshake between rank 0 and another rank: both are of the same job, and both hold its
// secret. Messages as values, no sockets.
//
//   client -> host   Hello      magic, SHA-256 of the job's id, nonce, rank, size, SHA-256 of the
//                              list of ranks that meet, the port that the client has connected to,
//                              whether it encrypts (HVD_DATA_TLS), HMAC(key, "…hello" + all of
//                              this)
//   host  -> client  Challenge  magic, verdict, nonce, HMAC(key, "…host" + Hello + nonce)
//   client -> host   Proof      HMAC(key, "…client" + Hello + nonce)
//   with HVD_DATA_TLS: TLS from here on, with a key of this connection; the client is its client
//
//   host  -> client  Welcome    magic
//
// The host says in the verdict why it refuses, before it proves anything; only that one of the two
// encrypts and the other does not it proves, as then all must be told. All messages have a fixed
// length, so nothing is allocated for a stranger. Without a secret the key is empty: then only the
// job's id is known to match.
//
// The Hello's own HMAC keeps who lacks the secret from holding a place among those that are being
// let in. The port keeps a local user from relaying between a port of theirs and rank 0's. Against
// a relay elsewhere both ends derive keys from the secret and the nonces, which authenticate what
// they say from then on (frame.hpp).

using HandshakeNonce = std::array<std::uint8_t, 32>;

inline constexpr std::size_t kHelloBytes = 8 + 32 + 32 + 4 + 4 + 32 + 2 + 1 + 32;
inline constexpr std::size_t kChallengeBytes = 8 + 1 + 32 + 32;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kWelcomeBytes = 8;

using HelloBytes = std::array<std::uint8_t, kHelloBytes>;
using ChallengeBytes = std::array<std::uint8_t, kChallengeBytes>;
using WelcomeBytes = std::array<std::uint8_t, kWelcomeBytes>;

enum class Verdict : std::uint8_t {
  go_on = 0,
  other_job = 1,
  other_size = 2,
  no_such_rank = 3,
  other_ranks = 4,
  other_secret = 5,
  other_port = 6,
  other_encryption = 7
};

// What both sides know of the job beforehand.
struct JobSecret {
  std::string job_id;
  std::vector<std::uint8_t> key;
  int size = 1;
  std::string ranks = {};  // which of the job's meet, as text; "": all
  bool encrypted = false;  // HVD_DATA_TLS
};

// The host's side.
struct HelloView {
  Digest job{};
  int rank = 0;
  int size = 0;
  Digest ranks{};
  std::uint16_t port = 0;
  bool encrypted = false;
};

// Of one connection, a key for each direction, and one for TLS. Only who holds the secret can
// derive them.
struct SessionKeys {
  Digest to_server{};
  Digest to_client{};
  Digest tls{};
};
SessionKeys session_keys(const JobSecret& secret, const HelloBytes& hello,
                         const HandshakeNonce& server_nonce);

// Nothing: these are not the first bytes of one of ours.
std::optional<HelloView> read_hello(const HelloBytes& hello);
// `port`: the host's, of this connection.
Verdict judge(const HelloBytes& hello, const HelloView& view, const JobSecret& secret,
              std::uint16_t port);
ChallengeBytes make_challenge(const JobSecret& secret, const HelloBytes& hello, Verdict verdict,
                              const HandshakeNonce& nonce);
bool proof_holds(const JobSecret& secret, const HelloBytes& hello, const HandshakeNonce& nonce,
                 const Digest& proof);
WelcomeBytes make_welcome();

// The client's side.
HelloBytes make_hello(const JobSecret& secret, int rank, std::uint16_t port,
                      const HandshakeNonce& nonce);

// The proof to answer with; or why there is none, in words; "" when the host is not one of ours.
struct Answer {
  std::optional<Digest> proof;
  std::string refusal;
  SessionKeys keys = {};
  bool other_encryption = false;  // the refusal is for that, and proven
};
Answer answer_challenge(const JobSecret& secret, const HelloBytes& hello,
                        const ChallengeBytes& challenge);

// A connection whose two ends have proven themselves to each other.
struct Proven {
  Connection socket;
  SessionKeys keys;
};

struct AcceptedRank {
  int rank;
  Proven connection;
  bool other_encryption = false;  // it is of this job, but there is no connection: see HVD_DATA_TLS
};

// One thread. A connection that does not speak the handshake, is of another job or does not hold
// the secret is dropped, and holds nobody up: each has 5 s, and 256 may be at it at once. When one
// more comes, the oldest goes that has not shown the secret in its first message; one that has said
// nothing does not reach us at all, as the kernel keeps it (TCP_DEFER_ACCEPT).
class AuthenticatedAcceptor {
 public:
  // That have not proven themselves, at a time: the oldest gives way.
  static constexpr std::size_t kMostStrangers = 256;

  AuthenticatedAcceptor(std::vector<Fd> listeners, JobSecret secret);
  ~AuthenticatedAcceptor();
  AuthenticatedAcceptor(const AuthenticatedAcceptor&) = delete;
  AuthenticatedAcceptor& operator=(const AuthenticatedAcceptor&) = delete;

  // The next client; nothing when the deadline is over. A rank may come twice.
  Result<std::optional<AcceptedRank>> next(const Deadline& deadline);

 private:
  class PendingConnection;

  Result<void> take_connections(const Fd& listener);
  void make_room();
  void advance_pending(std::span<const pollfd> entries);
  bool settle(PendingConnection& pending_connection);

  std::vector<Fd> listeners_;
  JobSecret secret_;
  std::list<PendingConnection> pending_connections_;
  std::deque<AcceptedRank> clients_;
};

// One attempt. What answers may tell why it refuses, in words; then `refusal` is set.
// HVD_ERROR_MISMATCH: it is who was looked for, but HVD_DATA_TLS differs there; no other attempt
// will end otherwise.
Result<Proven> connect_authenticated(const Address& address, const JobSecret& secret, int rank,
                                     const Deadline& deadline, std::string& refusal);

}  // namespace libhvd
