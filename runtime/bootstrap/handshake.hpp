// The handshake on a connection between two ranks: both prove that they are of the same job and
// hold its secret. Messages as values, without sockets; pure functions, for any thread.
//
//   client -> server   Hello      magic, SHA-256 of the job's id, nonce, rank, size, SHA-256 of the
//                                 list of ranks that start together, the port that the client has
//                                 connected to, whether it encrypts (HVD_DATA_TLS),
//                                 HMAC(key, "…hello" + all of this)
//   server -> client   Challenge  magic, verdict, nonce, HMAC(key, "…host" + Hello + nonce)
//   client -> server   Proof      HMAC(key, "…client" + Hello + nonce)
//   with HVD_DATA_TLS: TLS from here on, with a key of this connection; the client is its client
//
//   server -> client   Welcome    magic
//
// The server gives the reason of a refusal in its verdict, before it proves anything. The exception
// is a different HVD_DATA_TLS, which the server proves because all ranks must then fail. All
// messages have a fixed length, so nothing is allocated for a client that has not proven the
// secret. Without a secret the key is empty, and only the job's id is known to match.
//
// The HMAC of the Hello keeps a client without the secret from taking up one of the pending
// connections. The port keeps a local user from relaying between an own port and rank 0's port.
// Against a relay elsewhere both ends derive keys from the secret and the nonces, which
// authenticate all that follows (rendezvous_frame.hpp).
#pragma once

#include "bootstrap/job_secret.hpp"
#include "common/sha256.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace libhvd {

using HandshakeNonce = std::array<std::uint8_t, 32>;

inline constexpr std::size_t kHelloBytes = 8 + 32 + 32 + 4 + 4 + 32 + 2 + 1 + 32;
inline constexpr std::size_t kChallengeBytes = 8 + 1 + 32 + 32;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kWelcomeBytes = 8;

using HelloBytes = std::array<std::uint8_t, kHelloBytes>;
using ChallengeBytes = std::array<std::uint8_t, kChallengeBytes>;
using WelcomeBytes = std::array<std::uint8_t, kWelcomeBytes>;

// Whether the server accepts a client, and if not why. The numbers are those of the Challenge.
enum class Verdict : std::uint8_t {
  accepted = 0,
  other_job = 1,
  other_size = 2,
  no_such_rank = 3,
  other_ranks = 4,
  other_secret = 5,
  other_port = 6,
  other_encryption = 7
};

// ---- The server's side

// The fields of a Hello.
struct HelloView {
  Digest job{};
  int rank = 0;
  int size = 0;
  Digest ranks{};
  std::uint16_t port = 0;
  bool encrypted = false;
};

// The keys of one connection: one for each direction, and one for TLS. Only a holder of the secret
// can derive them.
struct SessionKeys {
  Digest to_server{};
  Digest to_client{};
  Digest tls{};
};

SessionKeys session_keys(const JobSecret& secret, const HelloBytes& hello,
                         const HandshakeNonce& server_nonce);

// Returns nullopt if the bytes are no Hello of this protocol.
std::optional<HelloView> read_hello(const HelloBytes& hello);
// Checks a Hello. `port`: the server's port of this connection.
Verdict judge(const HelloBytes& hello, const HelloView& view, const JobSecret& secret,
              std::uint16_t port);
// Builds the Challenge. Only for Verdict::accepted and Verdict::other_encryption it proves the
// server's secret.
ChallengeBytes make_challenge(const JobSecret& secret, const HelloBytes& hello, Verdict verdict,
                              const HandshakeNonce& nonce);
// Returns whether the client's Proof is right.
bool is_valid_proof(const JobSecret& secret, const HelloBytes& hello, const HandshakeNonce& nonce,
                    const Digest& proof);
WelcomeBytes make_welcome();

// ---- The client's side

HelloBytes make_hello(const JobSecret& secret, int rank, std::uint16_t port,
                      const HandshakeNonce& nonce);

// The answer to a Challenge.
struct Answer {
  std::optional<Digest> proof;  // nullopt if there is nothing to prove
  std::string refusal;          // then why, as text; "" if the server does not speak this protocol
  SessionKeys keys = {};
  bool other_encryption = false;  // the refusal is for that, and the server has proven it
};
Answer answer_challenge(const JobSecret& secret, const HelloBytes& hello,
                        const ChallengeBytes& challenge);

}  // namespace libhvd
