// TLS against OpenSSL itself, and our declarations of OpenSSL against its headers.
#include "base/connection.hpp"
#include "base/openssl_library.hpp"
#include "common/fd.hpp"
#include "socket_pair.hpp"

#include <type_traits>

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

namespace libhvd {
namespace {

// The other end has no key, and would accept certificates.
TEST(TlsTest, RefusesAPeerWithoutAKey) {
  for (const bool server : {false, true}) {
    const auto [one, two] = test::make_socket_pair(SOCK_NONBLOCK);
    auto ours = Tls::start(one.get(), server ? Tls::Side::server : Tls::Side::client, Digest{1});
    ASSERT_TRUE(ours.ok());
    SSL_CTX* const context = ::SSL_CTX_new(server ? ::TLS_client_method() : ::TLS_server_method());
    SSL* const theirs = ::SSL_new(context);
    ::SSL_set_fd(theirs, two.get());
    server ? ::SSL_set_connect_state(theirs) : ::SSL_set_accept_state(theirs);
    Result<short> own = short{1};
    for (int turn = 0; turn < 10 && own.ok() && *own != 0; ++turn) {
      own = (*ours)->handshake();
      ::SSL_do_handshake(theirs);
    }
    EXPECT_FALSE(own.ok()) << (server ? "as server" : "as client");
    EXPECT_NE(::SSL_is_init_finished(theirs), 1);
    ::SSL_free(theirs);
    ::SSL_CTX_free(context);
  }
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
}  // namespace libhvd
