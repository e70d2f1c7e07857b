#include "bootstrap/handshake.hpp"

#include <gtest/gtest.h>

namespace libhvd {
namespace {

const JobSecret kSecret{"job 7", std::vector<std::uint8_t>(32, 0x5a), 4};
const HandshakeNonce kGuestNonce{1, 2, 3};
const HandshakeNonce kHostNonce{4, 5, 6};

constexpr std::uint16_t kPort = 29501;

Answer handshake(const JobSecret& host, const JobSecret& client, int rank,
                 std::uint16_t host_port = kPort) {
  const HelloBytes hello = make_hello(client, rank, kPort, kGuestNonce);
  const auto view = read_hello(hello);
  EXPECT_TRUE(view);
  const auto verdict = judge(hello, *view, host, host_port);
  return answer_challenge(client, hello, make_challenge(host, hello, verdict, kHostNonce));
}

TEST(Handshake, BothSidesProveTheSecret) {
  const Answer answer = handshake(kSecret, kSecret, 3);
  ASSERT_TRUE(answer.proof) << answer.refusal;
  const HelloBytes hello = make_hello(kSecret, 3, kPort, kGuestNonce);
  EXPECT_TRUE(is_valid_proof(kSecret, hello, kHostNonce, *answer.proof));
  EXPECT_EQ(read_hello(hello)->rank, 3);
}

TEST(Handshake, BothSidesDeriveTheSameKeys) {
  const HelloBytes hello = make_hello(kSecret, 3, kPort, kGuestNonce);
  const SessionKeys host = session_keys(kSecret, hello, kHostNonce);
  const Answer client = handshake(kSecret, kSecret, 3);
  EXPECT_EQ(host.to_server, client.keys.to_server);
  EXPECT_EQ(host.to_client, client.keys.to_client);
  EXPECT_EQ(host.tls, client.keys.tls);
  EXPECT_NE(host.to_server, host.to_client);
  EXPECT_NE(host.tls, host.to_server);
  EXPECT_NE(host.tls, host.to_client);
  EXPECT_NE(host.tls, session_keys(kSecret, hello, HandshakeNonce{9}).tls);
  JobSecret other = kSecret;
  other.key[0] ^= 1;
  EXPECT_NE(host.to_server, session_keys(other, hello, kHostNonce).to_server);
  EXPECT_NE(host.to_server, session_keys(kSecret, hello, HandshakeNonce{9}).to_server);
}

TEST(Handshake, AConnectionThroughAnotherPortIsRefused) {
  const Answer answer = handshake(kSecret, kSecret, 1, kPort + 1);
  EXPECT_FALSE(answer.proof);
  EXPECT_NE(answer.refusal.find("another port"), std::string::npos) << answer.refusal;
  // A relay cannot change the port in the client's hello.
  HelloBytes hello = make_hello(kSecret, 1, kPort, kGuestNonce);
  hello[113] ^= 1;
  EXPECT_EQ(judge(hello, *read_hello(hello), kSecret, kPort ^ 1), Verdict::other_secret);
}

TEST(Handshake, AHelloWithAnotherSecretIsRefused) {
  JobSecret other = kSecret;
  other.key[31] ^= 1;
  const HelloBytes hello = make_hello(other, 1, kPort, kGuestNonce);
  EXPECT_EQ(judge(hello, *read_hello(hello), kSecret, kPort), Verdict::other_secret);
}

TEST(Handshake, AProofIsValidOnlyForItsNoncesAndRank) {
  const Answer answer = handshake(kSecret, kSecret, 3);
  ASSERT_TRUE(answer.proof);
  const HandshakeNonce other_nonce{9};
  EXPECT_FALSE(is_valid_proof(kSecret, make_hello(kSecret, 3, kPort, kGuestNonce), other_nonce,
                              *answer.proof));
  EXPECT_FALSE(is_valid_proof(kSecret, make_hello(kSecret, 3, kPort, other_nonce), kHostNonce,
                              *answer.proof));
  EXPECT_FALSE(is_valid_proof(kSecret, make_hello(kSecret, 2, kPort, kGuestNonce), kHostNonce,
                              *answer.proof));
}

TEST(Handshake, AHostWithAnotherKeyIsRefused) {
  JobSecret other = kSecret;
  other.key[0] ^= 1;
  const Answer answer = handshake(other, kSecret, 1);
  EXPECT_FALSE(answer.proof);
  EXPECT_NE(answer.refusal.find("HVD_JOB_KEY"), std::string::npos);
}

TEST(Handshake, TheHostGivesTheReasonOfARefusal) {
  JobSecret other_job = kSecret;
  other_job.job_id = "job 8";
  EXPECT_EQ(handshake(kSecret, other_job, 1).refusal, "it belongs to another job");
  JobSecret other_size = kSecret;
  other_size.size = 5;
  EXPECT_EQ(handshake(kSecret, other_size, 1).refusal, "it was started with another size");
  EXPECT_EQ(handshake(kSecret, kSecret, 0).refusal, "it says that there is no such rank");
}

TEST(Handshake, DifferentEncryptionIsRefusedWithAProof) {
  JobSecret encrypted = kSecret;
  encrypted.encrypted = true;
  EXPECT_TRUE(handshake(encrypted, encrypted, 1).proof);
  for (const auto& [host, client] :
       {std::pair(kSecret, encrypted), std::pair(encrypted, kSecret)}) {
    const Answer answer = handshake(host, client, 1);
    EXPECT_FALSE(answer.proof);
    EXPECT_TRUE(answer.other_encryption);
    EXPECT_NE(answer.refusal.find("HVD_DATA_TLS"), std::string::npos) << answer.refusal;
    // Without the secret, a host cannot claim another setting, and a relay cannot change the
    // client's.
    const HelloBytes hello = make_hello(client, 1, kPort, kGuestNonce);
    JobSecret foreign = host;
    foreign.key[0] ^= 1;
    const auto forged = make_challenge(foreign, hello, Verdict::other_encryption, kHostNonce);
    EXPECT_FALSE(answer_challenge(client, hello, forged).other_encryption);
    HelloBytes changed = hello;
    changed[114] ^= 1;
    EXPECT_EQ(judge(changed, *read_hello(changed), client, kPort), Verdict::other_secret);
  }
}

TEST(Handshake, GarbageIsRefused) {
  EXPECT_FALSE(read_hello(HelloBytes{}));
  const HelloBytes hello = make_hello(kSecret, 1, kPort, kGuestNonce);
  EXPECT_FALSE(answer_challenge(kSecret, hello, ChallengeBytes{}).proof);
}

}  // namespace
}  // namespace libhvd
