// Uses the test vectors of FIPS 180-4 (examples on csrc.nist.gov) and RFC 4231.
#include "common/sha256.hpp"

#include "common/text.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace common {
namespace {

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string hash(const std::string& text) {
  return to_hex(sha256(bytes_of(text)));
}

std::string mac(const std::string& key_hex, const std::string& message) {
  return to_hex(hmac_sha256(*from_hex(key_hex), bytes_of(message)));
}

std::string repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Sha256, MatchesTheDigestsOfFips180) {
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopq"
                 "klmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(hash(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheDataIsSplit) {
  const std::string text = repeat("0123456789", 30);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 pieces;
    pieces.update(bytes_of(text).first(cut));
    pieces.update(bytes_of(text).subspan(cut));
    EXPECT_EQ(to_hex(pieces.finish()), hash(text)) << "cut at " << cut;
  }
}

TEST(HmacSha256, MatchesTheDigestsOfRfc4231) {
  EXPECT_EQ(mac(repeat("0b", 20), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(mac("4a656665", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(mac(repeat("aa", 20), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(mac("0102030405060708090a0b0c0d0e0f10111213141516171819", std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(mac(repeat("aa", 131), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(mac(repeat("aa", 131),
                "This is a test using a larger than block-size key and a larger than block-size "
                "data. The key needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hex, RefusesInvalidText) {
  EXPECT_FALSE(from_hex("abc"));
  EXPECT_FALSE(from_hex("zz"));
  EXPECT_FALSE(from_hex("-1"));
  EXPECT_EQ(*from_hex("00fF"), (std::vector<std::uint8_t>{0, 255}));
}

}  // namespace
}  // namespace common
