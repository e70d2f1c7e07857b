// OpenSSL, opened at run time.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <string>

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

struct ssl_st;
struct ssl_ctx_st;

namespace hvdrun {

// One TLS 1.3 connection that both sides open with a key they share (RFC 8446, section 4.2.11).
//
// No certificates: a side without the key cannot finish the handshake, and neither side goes on
// without having seen that the other has it. Keys are also agreed afresh (psk_dhe_ke), so that who
// learns the key later cannot read what was recorded. No resumption, no early data.
//
// Non-blocking; belongs to one thread. SIGPIPE must be ignored or blocked.

struct LinkKey {
  std::string identity;  // goes over the wire in the clear: names the key, and is no secret
  std::array<unsigned char, 32> secret{};
};

// A fresh key from the kernel's random numbers.
LinkKey make_link_key(std::string identity);

class TlsStream;

// What all connections of one side have in common.
class TlsContext {
 public:
  enum class Side { client, server };
  // Error: this OpenSSL lacks what we need.
  static Result<TlsContext> make(Side side, LinkKey key);

  // Takes a connected, non-blocking socket. Error: no memory.
  Result<TlsStream> wrap(Fd socket) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

class TlsStream {
 public:
  enum class Status {
    done,
    want_read,   // call again when the socket is readable
    want_write,  // call again, with the same bytes, when the socket is writable
    closed,      // the other side has said that it will send nothing more
    failed,      // see error(); nothing more can be done with it
  };
  struct Transfer {
    Status status;
    std::size_t bytes;  // > 0 only with `done`
  };
  // The most that one record carries (RFC 8446, 5.1). A read with so much room leaves nothing
  // behind inside the stream, so that the socket's readiness tells the whole truth.
  static constexpr std::size_t kMaxRecord = 16384;

  TlsStream(TlsStream&&) noexcept;
  TlsStream& operator=(TlsStream&&) noexcept;
  ~TlsStream();

  int fd() const { return socket_.get(); }

  Status handshake();  // `done`: the other side has the key
  // Of a server: the first message has come whole and shows that the other side has the key (its
  // PSK binder, RFC 8446, 4.2.11.2), though it may be the copy of one.
  bool was_greeted() const;
  Transfer read(char* to, std::size_t size);
  Transfer write(const char* from, std::size_t size);  // may take less than `size`
  // Says that we shall send nothing more, and closes that direction of the socket.
  void end_writing();

  const std::string& error() const { return error_; }

 private:
  friend class TlsContext;
  struct SslDeleter {
    void operator()(ssl_st* ssl) const;
  };
  TlsStream(Fd socket, std::unique_ptr<ssl_st, SslDeleter> ssl,
            std::shared_ptr<const void> keep_alive);
  Status status_of(int result);

  Fd socket_;
  std::shared_ptr<const void> context_;  // outlives ssl_
  std::unique_ptr<ssl_st, SslDeleter> ssl_;
  std::string error_;
};

}  // namespace hvdrun
