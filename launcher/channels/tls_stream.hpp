// One TLS 1.3 connection that both sides open with a key they share (RFC 8446, section 4.2.11), by
// OpenSSL, which is opened at run time.
//
// There are no certificates: a side without the key cannot finish the handshake, and neither side
// continues before it has seen that the other has the key. Keys are also agreed afresh
// (psk_dhe_ke), so that a process that learns the key later cannot read recorded traffic. No
// resumption, no early data.
//
// A stream is non-blocking and belongs to one thread. SIGPIPE must be ignored or blocked. A stream
// that fails stays failed; error() says why.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include <openssl/err.h>
#include <openssl/ssl.h>

// The functions of OpenSSL that an agent's link calls: X(name) for each.
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

// Opens OpenSSL; the first call does. On any thread. Error: it is not installed, or too old.
Result<void> open_openssl();

// Returns the functions of OpenSSL. Call it only after open_openssl() has succeeded.
const TlsLibrary& openssl();

}  // namespace hvdrun

struct ssl_st;
struct ssl_ctx_st;

namespace hvdrun {

struct LinkKey {
  std::string identity;  // the key's name, which is no secret: it is sent in the clear
  std::array<unsigned char, 32> secret{};
};

// Makes a new key from the kernel's random numbers. Aborts the process if there are none.
LinkKey make_link_key(std::string identity);

class TlsStream;

// The settings that all connections of one side share.
class TlsContext {
 public:
  enum class Side { client, server };
  // Error: OpenSSL is missing, or lacks what we need.
  static Result<TlsContext> make(Side side, LinkKey key);

  // Makes a stream of a connected, non-blocking socket, and takes it. Error: no memory.
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
    closed,      // the other side has ended its direction
    failed,      // see error(); the stream is of no more use
  };
  struct Transfer {
    Status status;
    std::size_t bytes;  // > 0 only with `done`
  };
  // The most bytes that one record carries (RFC 8446, 5.1). A read with this much room leaves no
  // bytes inside the stream, so that the socket's readiness is all that matters.
  static constexpr std::size_t kMaxRecord = 16384;

  TlsStream(TlsStream&&) noexcept;
  TlsStream& operator=(TlsStream&&) noexcept;
  ~TlsStream();

  int fd() const { return socket_.get(); }

  Status handshake();  // after `done` the other side has the key
  // Returns whether a server has received the whole first message, and that shows that the other
  // side has the key (its PSK binder, RFC 8446, 4.2.11.2). It may be a copy of another's message.
  bool was_greeted() const;
  Transfer read(char* to, std::size_t size);
  Transfer write(const char* from, std::size_t size);  // may take fewer bytes than `size`
  // Sends the end of our direction, and closes that direction of the socket.
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
