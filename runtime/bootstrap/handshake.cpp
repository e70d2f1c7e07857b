#include "bootstrap/handshake.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

namespace libhvd {
namespace {

constexpr std::string_view kHelloMagic = "hvdhail4";
constexpr std::string_view kChallengeMagic = "hvdhost2";
constexpr std::string_view kWelcomeMagic = "hvdjoin1";

// Writes fields one after the other into a message of fixed length.
class MessageWriter {
 public:
  explicit MessageWriter(std::span<std::uint8_t> message) : rest_(message) {}
  MessageWriter& text(std::string_view value) {
    std::copy(value.begin(), value.end(), rest_.begin());
    rest_ = rest_.subspan(value.size());
    return *this;
  }
  MessageWriter& bytes(Bytes value) {
    std::copy(value.begin(), value.end(), rest_.begin());
    rest_ = rest_.subspan(value.size());
    return *this;
  }
  MessageWriter& number(std::uint32_t value) {
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

// Returns the HMAC of a side's label, the Hello and the server's nonce.
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
constexpr std::string_view kServerDiffers = "hvd rendezvous host encrypts otherwise";
constexpr std::string_view kServerSide = "hvd rendezvous host";
constexpr std::string_view kClientSide = "hvd rendezvous client";

// The length of a Hello without its own HMAC.
constexpr std::size_t kHelloFields = kHelloBytes - sizeof(Digest);

Digest prove_hello(const JobSecret& secret, const HelloBytes& hello) {
  std::vector<std::uint8_t> message(kHelloLabel.begin(), kHelloLabel.end());
  message.insert(message.end(), hello.begin(), hello.begin() + kHelloFields);
  return hmac_sha256(secret.key, message);
}

constexpr const char* kOtherSecret = "it does not hold the same secret (HVD_JOB_KEY)";

std::string refusal_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::accepted:
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
  return Verdict::accepted;
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
  if (verdict == Verdict::accepted) proof = prove(secret, kServerSide, hello, nonce);
  if (verdict == Verdict::other_encryption) proof = prove(secret, kServerDiffers, hello, nonce);
  const auto code = static_cast<std::uint8_t>(verdict);
  MessageWriter(challenge).text(kChallengeMagic).bytes({&code, 1}).bytes(nonce).bytes(proof);
  return challenge;
}

bool is_valid_proof(const JobSecret& secret, const HelloBytes& hello, const HandshakeNonce& nonce,
                    const Digest& proof) {
  return equal_digests(proof, prove(secret, kClientSide, hello, nonce));
}

WelcomeBytes make_welcome() {
  WelcomeBytes welcome{};
  MessageWriter(welcome).text(kWelcomeMagic);
  return welcome;
}

HelloBytes make_hello(const JobSecret& secret, int rank, std::uint16_t port,
                      const HandshakeNonce& nonce) {
  HelloBytes hello{};
  MessageWriter(hello)
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
  if (verdict != Verdict::accepted) {
    Answer refused{std::nullopt, refusal_text(verdict)};
    refused.other_encryption =
        verdict == Verdict::other_encryption &&
        equal_digests(digest_at(challenge, 41), prove(secret, kServerDiffers, hello, nonce));
    return refused;
  }
  if (!equal_digests(digest_at(challenge, 41), prove(secret, kServerSide, hello, nonce))) {
    return {std::nullopt, kOtherSecret};
  }
  return {prove(secret, kClientSide, hello, nonce), {}, session_keys(secret, hello, nonce)};
}

}  // namespace libhvd
