// OpenSSL, opened at run time.
#pragma once

#include "base/result.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

// The functions that a link of an agent calls; X(name).
#define HVDRUN_TLS_SYMBOLS(X)              \
  X(ERR_clear_error)                       \
  X(ERR_peek_error)                        \
  X(ERR_reason_error_string)               \
  X(SSL_CIPHER_find)                       \
  X(SSL_CTX_ctrl)                          \
  X(SSL_CTX_free)                          \
  X(SSL_CTX_get_ex_data)                   \
  X(SSL_CTX_new)                           \
  X(SSL_CTX_set_ciphersuites)              \
  X(SSL_CTX_set_ex_data)                   \
  X(SSL_CTX_set_num_tickets)               \
  X(SSL_CTX_set_psk_find_session_callback) \
  X(SSL_CTX_set_psk_use_session_callback)  \
  X(SSL_CTX_set_verify)                    \
  X(SSL_SESSION_free)                      \
  X(SSL_SESSION_new)                       \
  X(SSL_SESSION_set1_master_key)           \
  X(SSL_SESSION_set_cipher)                \
  X(SSL_SESSION_set_protocol_version)      \
  X(SSL_do_handshake)                      \
  X(SSL_free)                              \
  X(SSL_get_SSL_CTX)                       \
  X(SSL_get_error)                         \
  X(SSL_get_state)                         \
  X(SSL_is_server)                         \
  X(SSL_new)                               \
  X(SSL_read_ex)                           \
  X(SSL_session_reused)                    \
  X(SSL_set_accept_state)                  \
  X(SSL_set_connect_state)                 \
  X(SSL_set_fd)                            \
  X(SSL_shutdown)                          \
  X(SSL_write_ex)                          \
  X(TLS_client_method)                     \
  X(TLS_server_method)

namespace hvdrun {

struct TlsLibrary {
#define HVDRUN_TLS_MEMBER(name) decltype(&::name) name = nullptr;
  HVDRUN_TLS_SYMBOLS(HVDRUN_TLS_MEMBER)
#undef HVDRUN_TLS_MEMBER
};

// Opened by the first who asks; from any thread. Error: not installed, or too old.
Result<void> open_openssl();

// Once open_openssl() has succeeded.
const TlsLibrary& openssl();

}  // namespace hvdrun
