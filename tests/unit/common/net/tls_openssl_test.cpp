// TLS against OpenSSL itself, and our declarations of OpenSSL against its headers.
#include "common/net/openssl_library.hpp"
#include "common/net/tls.hpp"
#include "connection_pairs.hpp"

#include <string>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

namespace common {
namespace {

using Handshake = Result<short, std::string>;

// Plain OpenSSL at the other end of a connection.
class Plain {
 public:
  Plain(bool is_server, Fd socket)
      : socket_(std::move(socket)),
        context_(::SSL_CTX_new(is_server ? ::TLS_server_method() : ::TLS_client_method())),
        ssl_(::SSL_new(context_)) {
    ::SSL_set_fd(ssl_, socket_.get());
    is_server ? ::SSL_set_accept_state(ssl_) : ::SSL_set_connect_state(ssl_);
  }
  ~Plain() {
    ::SSL_free(ssl_);
    ::SSL_CTX_free(context_);
  }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  SSL* ssl() const { return ssl_; }

 private:
  Fd socket_;
  SSL_CTX* context_;
  SSL* ssl_;
};

Handshake shake_hands(Tls& ours, const Plain& theirs) {
  Handshake own = short{1};
  for (int turn = 0; turn < 10 && own.ok() && *own != 0; ++turn) {
    own = ours.handshake();
    ::SSL_do_handshake(theirs.ssl());
  }
  return own;
}

// The other end has no key, and would accept certificates.
TEST(TlsTest, RefusesAPeerWithoutAKey) {
  for (const bool server : {false, true}) {
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      test::SocketPair pair = test::local_pair();
      auto ours = Tls::start(pair.client.get(), server ? Tls::Side::server : Tls::Side::client,
                             test::kTestKey);
      ASSERT_TRUE(ours.ok());
      const Plain theirs(!server, std::move(pair.server));
      ::SSL_set_max_proto_version(theirs.ssl(), version);
      EXPECT_FALSE(shake_hands(**ours, theirs).ok()) << (server ? "as server" : "as client");
      EXPECT_NE(::SSL_is_init_finished(theirs.ssl()), 1);
    }
  }
}

// What is sent in a handshake must not change: other versions of libhvd take part in a job.
int find_test_key(SSL* ssl, const unsigned char* identity, std::size_t size,
                  SSL_SESSION** session) {
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(identity), size), test::kTestKey.identity);
  const unsigned char suite[] = {0x13, 0x01};
  *session = ::SSL_SESSION_new();
  ::SSL_SESSION_set1_master_key(*session, test::kTestKey.secret.data(),
                                test::kTestKey.secret.size());
  ::SSL_SESSION_set_cipher(*session, ::SSL_CIPHER_find(ssl, suite));
  ::SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  return 1;
}

TEST(TlsTest, SpeaksWithAnyOpensslThatHasTheKey) {
  test::SocketPair pair = test::local_pair();
  auto ours = Tls::start(pair.client.get(), Tls::Side::client, test::kTestKey);
  ASSERT_TRUE(ours.ok());
  const Plain theirs(true, std::move(pair.server));
  ::SSL_set_psk_find_session_callback(theirs.ssl(), find_test_key);
  const Handshake own = shake_hands(**ours, theirs);
  ASSERT_TRUE(own.ok()) << own.error();
  EXPECT_EQ(*own, 0);
  EXPECT_STREQ(::SSL_get_version(theirs.ssl()), "TLSv1.3");
  EXPECT_STREQ(::SSL_get_cipher(theirs.ssl()), "TLS_AES_128_GCM_SHA256");
  EXPECT_EQ(::SSL_session_reused(theirs.ssl()), 1);
}

// Compares our declarations of OpenSSL with its headers.
#define HVD_SAME_DECLARATION(name, result, parameters) \
  static_assert(std::is_same_v<decltype(&::name), decltype(OpensslLibrary::name)>, #name);
HVD_OPENSSL_FUNCTIONS(HVD_SAME_DECLARATION)
#undef HVD_SAME_DECLARATION

static_assert(openssl::kBioTypeSourceSink == BIO_TYPE_SOURCE_SINK);
static_assert(openssl::kBioFlush == BIO_CTRL_FLUSH);
static_assert(openssl::kBioRead == BIO_FLAGS_READ);
static_assert(openssl::kBioWrite == BIO_FLAGS_WRITE);
static_assert(openssl::kBioSpecial == BIO_FLAGS_IO_SPECIAL);
static_assert(openssl::kBioRetry == BIO_FLAGS_SHOULD_RETRY);
static_assert(openssl::kInitNoAtexit == OPENSSL_INIT_NO_ATEXIT);
static_assert(openssl::kControlMode == SSL_CTRL_MODE);
static_assert(openssl::kControlReadAhead == SSL_CTRL_SET_READ_AHEAD);
static_assert(openssl::kControlSessionCache == SSL_CTRL_SET_SESS_CACHE_MODE);
static_assert(openssl::kControlGroups == SSL_CTRL_SET_GROUPS_LIST);
static_assert(openssl::kControlLeastVersion == SSL_CTRL_SET_MIN_PROTO_VERSION);
static_assert(openssl::kModePartialWrite == SSL_MODE_ENABLE_PARTIAL_WRITE);
static_assert(openssl::kModeMovingWriteBuffer == SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
static_assert(openssl::kModeReleaseBuffers == SSL_MODE_RELEASE_BUFFERS);
static_assert(openssl::kTls13 == TLS1_3_VERSION);
static_assert(openssl::kVerifyPeer == SSL_VERIFY_PEER);
static_assert(openssl::kKeyUpdateNotRequested == SSL_KEY_UPDATE_NOT_REQUESTED);
static_assert(openssl::kErrorWantRead == SSL_ERROR_WANT_READ);
static_assert(openssl::kErrorWantWrite == SSL_ERROR_WANT_WRITE);
static_assert(openssl::kErrorZeroReturn == SSL_ERROR_ZERO_RETURN);

}  // namespace
}  // namespace common
