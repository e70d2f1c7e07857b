#include "bootstrap/handshake.hpp"

#include <gtest/gtest.h>

namespace libhvd {
namespace {

const JobSecret kSecret{"job 7", std::vector<std::uint8_t>(32, 0x5a), 4};
const HandshakeNonce kGuestNonce{1, 2, 3};
const HandshakeNonce kHostNonce{4, 5, 6};

Answer meet(const JobSecret& host, const JobSecret& guest, int rank) {
  const HelloBytes hello = make_hello(guest, rank, kGuestNonce);
  const auto view = read_hello(hello);
  EXPECT_TRUE(view);
  const auto verdict = judge(*view, host);
  return answer_challenge(guest, hello, make_challenge(host, hello, verdict, kHostNonce));
}

TEST(Handshake, BothSidesProveTheSecret) {
  const Answer answer = meet(kSecret, kSecret, 3);
  ASSERT_TRUE(answer.proof) << answer.refusal;
  const HelloBytes hello = make_hello(kSecret, 3, kGuestNonce);
  EXPECT_TRUE(proof_holds(kSecret, hello, kHostNonce, *answer.proof));
  EXPECT_EQ(read_hello(hello)->rank, 3);
}

TEST(Handshake, AProofIsGoodForItsNoncesAndRankOnly) {
  const Answer answer = meet(kSecret, kSecret, 3);
  ASSERT_TRUE(answer.proof);
  const HandshakeNonce other_nonce{9};
  EXPECT_FALSE(
      proof_holds(kSecret, make_hello(kSecret, 3, kGuestNonce), other_nonce, *answer.proof));
  EXPECT_FALSE(
      proof_holds(kSecret, make_hello(kSecret, 3, other_nonce), kHostNonce, *answer.proof));
  EXPECT_FALSE(
      proof_holds(kSecret, make_hello(kSecret, 2, kGuestNonce), kHostNonce, *answer.proof));
}

TEST(Handshake, AHostWithAnotherKeyIsRefused) {
  JobSecret other = kSecret;
  other.key[0] ^= 1;
  const Answer answer = meet(other, kSecret, 1);
  EXPECT_FALSE(answer.proof);
  EXPECT_NE(answer.refusal.find("HVD_JOB_KEY"), std::string::npos);
}

TEST(Handshake, TheHostSaysWhyItRefuses) {
  JobSecret other_job = kSecret;
  other_job.job_id = "job 8";
  EXPECT_EQ(meet(kSecret, other_job, 1).refusal, "it belongs to another job");
  JobSecret other_size = kSecret;
  other_size.size = 5;
  EXPECT_EQ(meet(kSecret, other_size, 1).refusal, "it was started with another size");
  EXPECT_EQ(meet(kSecret, kSecret, 0).refusal, "it says that there is no such rank");
}

TEST(Handshake, GarbageIsNotAHello) {
  EXPECT_FALSE(read_hello(HelloBytes{}));
  const HelloBytes hello = make_hello(kSecret, 1, kGuestNonce);
  EXPECT_FALSE(answer_challenge(kSecret, hello, ChallengeBytes{}).proof);
}

}  // namespace
}  // namespace libhvd
