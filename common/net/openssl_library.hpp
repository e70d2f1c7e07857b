// OpenSSL 3, opened at run time when TLS is first needed. Declares the functions that tls.cpp uses,
// by their manual pages; they are the same in all versions of libssl.so.3. So neither the build nor
// a program without TLS needs OpenSSL. load() for any thread.
#pragma once

#include "common/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

struct bio_method_st;
struct bio_st;
struct evp_md_st;
struct ossl_init_settings_st;
struct ssl_cipher_st;
struct ssl_ctx_st;
struct ssl_method_st;
struct ssl_session_st;
struct ssl_st;
struct x509_store_ctx_st;

namespace common {

using BioControl = long (*)(bio_st*, int, long, void*);
using BioRead = int (*)(bio_st*, char*, std::size_t, std::size_t*);
using BioWrite = int (*)(bio_st*, const char*, std::size_t, std::size_t*);
using FindKey = int (*)(ssl_st*, const unsigned char*, std::size_t, ssl_session_st**);
using OfferKey = int (*)(ssl_st*, const evp_md_st*, const unsigned char**, std::size_t*,
                         ssl_session_st**);
using VerifyCertificate = int (*)(int, x509_store_ctx_st*);

// The functions: X(name, type of the result, parameters).
#define HVD_OPENSSL_FUNCTIONS(X)                                                            \
  X(BIO_clear_flags, void, (bio_st*, int))                                                  \
  X(BIO_get_data, void*, (bio_st*))                                                         \
  X(BIO_get_new_index, int, ())                                                             \
  X(BIO_meth_new, bio_method_st*, (int, const char*))                                       \
  X(BIO_meth_set_ctrl, int, (bio_method_st*, BioControl))                                   \
  X(BIO_meth_set_read_ex, int, (bio_method_st*, BioRead))                                   \
  X(BIO_meth_set_write_ex, int, (bio_method_st*, BioWrite))                                 \
  X(BIO_new, bio_st*, (const bio_method_st*))                                               \
  X(BIO_set_data, void, (bio_st*, void*))                                                   \
  X(BIO_set_flags, void, (bio_st*, int))                                                    \
  X(BIO_set_init, void, (bio_st*, int))                                                     \
  X(ERR_clear_error, void, ())                                                              \
  X(ERR_peek_error, unsigned long, ())                                                      \
  X(ERR_reason_error_string, const char*, (unsigned long))                                  \
  X(OPENSSL_init_ssl, int, (std::uint64_t, const ossl_init_settings_st*))                   \
  X(SSL_CIPHER_find, const ssl_cipher_st*, (ssl_st*, const unsigned char*))                 \
  X(SSL_CTX_ctrl, long, (ssl_ctx_st*, int, long, void*))                                    \
  X(SSL_CTX_new, ssl_ctx_st*, (const ssl_method_st*))                                       \
  X(SSL_CTX_set_ciphersuites, int, (ssl_ctx_st*, const char*))                              \
  X(SSL_CTX_set_default_read_buffer_len, void, (ssl_ctx_st*, std::size_t))                  \
  X(SSL_CTX_set_num_tickets, int, (ssl_ctx_st*, std::size_t))                               \
  X(SSL_CTX_set_psk_find_session_callback, void, (ssl_ctx_st*, FindKey))                    \
  X(SSL_CTX_set_psk_use_session_callback, void, (ssl_ctx_st*, OfferKey))                    \
  X(SSL_CTX_set_verify, void, (ssl_ctx_st*, int, VerifyCertificate))                        \
  X(SSL_SESSION_free, void, (ssl_session_st*))                                              \
  X(SSL_SESSION_new, ssl_session_st*, ())                                                   \
  X(SSL_SESSION_set1_master_key, int, (ssl_session_st*, const unsigned char*, std::size_t)) \
  X(SSL_SESSION_set_cipher, int, (ssl_session_st*, const ssl_cipher_st*))                   \
  X(SSL_SESSION_set_protocol_version, int, (ssl_session_st*, int))                          \
  X(SSL_do_handshake, int, (ssl_st*))                                                       \
  X(SSL_free, void, (ssl_st*))                                                              \
  X(SSL_get_error, int, (const ssl_st*, int))                                               \
  X(SSL_get_ex_data, void*, (const ssl_st*, int))                                           \
  X(SSL_key_update, int, (ssl_st*, int))                                                    \
  X(SSL_new, ssl_st*, (ssl_ctx_st*))                                                        \
  X(SSL_read_ex, int, (ssl_st*, void*, std::size_t, std::size_t*))                          \
  X(SSL_session_reused, int, (const ssl_st*))                                               \
  X(SSL_set_accept_state, void, (ssl_st*))                                                  \
  X(SSL_set_bio, void, (ssl_st*, bio_st*, bio_st*))                                         \
  X(SSL_set_connect_state, void, (ssl_st*))                                                 \
  X(SSL_set_ex_data, int, (ssl_st*, int, void*))                                            \
  X(SSL_shutdown, int, (ssl_st*))                                                           \
  X(SSL_write_ex, int, (ssl_st*, const void*, std::size_t, std::size_t*))                   \
  X(TLS_client_method, const ssl_method_st*, ())                                            \
  X(TLS_server_method, const ssl_method_st*, ())

struct OpensslLibrary {
#define HVD_OPENSSL_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  HVD_OPENSSL_FUNCTIONS(HVD_OPENSSL_MEMBER)
#undef HVD_OPENSSL_MEMBER

  // Opens the library, which stays open. Error: it is not installed, or lacks a function; the text
  // names the package.
  static Result<OpensslLibrary, std::string> load(const char* soname);
};

// Values of macros in OpenSSL's headers.
namespace openssl {
inline constexpr int kBioTypeSourceSink = 0x0400;
inline constexpr int kBioFlush = 11;
inline constexpr int kBioRead = 0x01;
inline constexpr int kBioWrite = 0x02;
inline constexpr int kBioSpecial = 0x04;
inline constexpr int kBioRetry = 0x08;
inline constexpr std::uint64_t kInitNoAtexit = 0x00080000;
inline constexpr int kControlMode = 33;
inline constexpr int kControlReadAhead = 41;
inline constexpr int kControlSessionCache = 44;
inline constexpr int kControlGroups = 92;
inline constexpr int kControlLeastVersion = 123;
inline constexpr long kModePartialWrite = 0x01;
inline constexpr long kModeMovingWriteBuffer = 0x02;
inline constexpr long kModeReleaseBuffers = 0x10;
inline constexpr int kTls13 = 0x0304;
inline constexpr int kVerifyPeer = 0x01;
inline constexpr int kKeyUpdateNotRequested = 0;
inline constexpr int kErrorWantRead = 2;
inline constexpr int kErrorWantWrite = 3;
inline constexpr int kErrorZeroReturn = 6;
}  // namespace openssl

}  // namespace common
