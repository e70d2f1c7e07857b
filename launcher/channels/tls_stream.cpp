#include "channels/tls_stream.hpp"

#include "base/system.hpp"
#include "common/bundled_library.hpp"
#include "common/system.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <sys/socket.h>

namespace hvdrun {
namespace {

Result<TlsLibrary> load_libssl() {
  const auto opened = open_own_or_bundled("libssl.so.3");
  if (!opened) return fail(opened.error());
  TlsLibrary library;
#define HVDRUN_TLS_LOAD(name) \
  if (!opened->find(#name, library.name)) return fail("libssl.so.3 has no " #name);
  HVDRUN_TLS_SYMBOLS(HVDRUN_TLS_LOAD)
#undef HVDRUN_TLS_LOAD
  return library;
}

const Result<TlsLibrary>& libssl_library() {
  static const Result<TlsLibrary> library = load_libssl();
  return library;
}

// The suite that every TLS 1.3 must have (RFC 8446, 9.1). A PSK belongs to a hash, so both sides
// use one suite only.
constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kSuiteNumber[] = {0x13, 0x01};
constexpr const char* kGroups = "X25519:P-256";
constexpr int kKeyIndex = 0;  // SSL_CTX_set_app_data(3)

const LinkKey& key_of(const SSL* ssl) {
  return *static_cast<const LinkKey*>(
      openssl().SSL_CTX_get_ex_data(openssl().SSL_get_SSL_CTX(ssl), kKeyIndex));
}

// Returns the key in OpenSSL's form, or null if there is no memory.
SSL_SESSION* session_of(SSL* ssl, const LinkKey& key) {
  SSL_SESSION* session = openssl().SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (openssl().SSL_SESSION_set1_master_key(session, key.secret.data(), key.secret.size()) == 1 &&
      openssl().SSL_SESSION_set_cipher(session, openssl().SSL_CIPHER_find(ssl, kSuiteNumber)) ==
          1 &&
      openssl().SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  openssl().SSL_SESSION_free(session);
  return nullptr;
}

// Offers the key to the server: SSL_CTX_set_psk_use_session_callback(3).
int offer_key(SSL* ssl, const EVP_MD* /*of the suite that was agreed on*/, const unsigned char** id,
              std::size_t* id_size, SSL_SESSION** session) {
  const LinkKey& key = key_of(ssl);
  *session = session_of(ssl, key);
  *id = reinterpret_cast<const unsigned char*>(key.identity.data());
  *id_size = key.identity.size();
  return *session != nullptr ? 1 : 0;
}

// Finds the key that a client offers: SSL_CTX_set_psk_find_session_callback(3). Without a session
// there is no key, and so, without a certificate, no handshake.
int find_key(SSL* ssl, const unsigned char* id, std::size_t id_size, SSL_SESSION** session) {
  const LinkKey& key = key_of(ssl);
  *session = nullptr;
  if (std::string_view(reinterpret_cast<const char*>(id), id_size) != key.identity) return 1;
  *session = session_of(ssl, key);
  return *session != nullptr ? 1 : 0;
}

std::string last_error() {
  const unsigned long code = openssl().ERR_peek_error();
  const char* reason = code == 0 ? nullptr : openssl().ERR_reason_error_string(code);
  return reason == nullptr ? "TLS failed" : std::string("TLS: ") + reason;
}

// OpenSSL's macros SSL_CTX_set_… call SSL_CTX_ctrl(3) with these.
bool set_up(SSL_CTX* context) {
  const auto control = [context](int what, long number, const void* data = nullptr) {
    return openssl().SSL_CTX_ctrl(context, what, number, const_cast<void*>(data));
  };
  control(SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF);
  control(SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                             SSL_MODE_RELEASE_BUFFERS);
  return control(SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION) == 1 &&
         control(SSL_CTRL_SET_GROUPS_LIST, 0, kGroups) == 1 &&
         openssl().SSL_CTX_set_ciphersuites(context, kSuite) == 1 &&
         openssl().SSL_CTX_set_num_tickets(context, 0) == 1;
}

}  // namespace

Result<void> open_openssl() {
  if (!libssl_library()) return libssl_library().error();
  return {};
}

const TlsLibrary& openssl() {
  return *libssl_library();
}

LinkKey make_link_key(std::string identity) {
  LinkKey key;
  key.identity = std::move(identity);
  if (!common::fill_random(key.secret)) end_process("cannot get random bytes", errno);
  return key;
}

struct TlsContext::State {
  LinkKey key;
  SSL_CTX* context = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (context != nullptr) openssl().SSL_CTX_free(context);
    ::explicit_bzero(key.secret.data(), key.secret.size());
  }
};

Result<TlsContext> TlsContext::make(Side side, LinkKey key) {
  if (auto opened = open_openssl(); !opened)
    return fail("TLS for the agents needs OpenSSL 3 (" + opened.error().message + ")");
  auto state = std::make_shared<State>();
  state->key = std::move(key);
  openssl().ERR_clear_error();
  state->context = openssl().SSL_CTX_new(side == Side::server ? openssl().TLS_server_method()
                                                              : openssl().TLS_client_method());
  SSL_CTX* const context = state->context;
  if (context == nullptr || !set_up(context))
    return fail("cannot set up TLS 1.3 for the agents (" + last_error() + ")");
  openssl().SSL_CTX_set_ex_data(context, kKeyIndex, &state->key);
  if (side == Side::server) {
    openssl().SSL_CTX_set_psk_find_session_callback(context, find_key);
  } else {
    openssl().SSL_CTX_set_psk_use_session_callback(context, offer_key);
    // A server without the key could offer a certificate instead, and this client trusts none.
    openssl().SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  TlsContext made;
  made.state_ = std::move(state);
  return made;
}

Result<TlsStream> TlsContext::wrap(Fd socket) const {
  std::unique_ptr<ssl_st, TlsStream::SslDeleter> ssl(openssl().SSL_new(state_->context));
  if (!ssl || openssl().SSL_set_fd(ssl.get(), socket.get()) != 1)
    return fail("cannot set up a TLS connection (" + last_error() + ")");
  if (openssl().SSL_is_server(ssl.get()) == 1)
    openssl().SSL_set_accept_state(ssl.get());
  else
    openssl().SSL_set_connect_state(ssl.get());
  return TlsStream(std::move(socket), std::move(ssl), state_);
}

void TlsStream::SslDeleter::operator()(ssl_st* ssl) const {
  openssl().SSL_free(ssl);
}

TlsStream::TlsStream(Fd socket, std::unique_ptr<ssl_st, SslDeleter> ssl,
                     std::shared_ptr<const void> keep_alive)
    : socket_(std::move(socket)), context_(std::move(keep_alive)), ssl_(std::move(ssl)) {}
TlsStream::TlsStream(TlsStream&&) noexcept = default;
TlsStream& TlsStream::operator=(TlsStream&& other) noexcept {
  ssl_ =
      std::move(other.ssl_);  // first, so that the old one is freed before its socket and context
  socket_ = std::move(other.socket_);
  context_ = std::move(other.context_);
  error_ = std::move(other.error_);
  return *this;
}
TlsStream::~TlsStream() = default;

TlsStream::Status TlsStream::handshake() {
  openssl().ERR_clear_error();
  const int result = openssl().SSL_do_handshake(ssl_.get());
  if (result != 1) return status_of(result);
  if (openssl().SSL_session_reused(ssl_.get()) == 1) return Status::done;
  error_ = "TLS: the other side does not have the key";
  return Status::failed;
}

bool TlsStream::was_greeted() const {
  const auto state = openssl().SSL_get_state(ssl_.get());
  return state != TLS_ST_BEFORE && state != TLS_ST_SR_CLNT_HELLO;
}

TlsStream::Transfer TlsStream::read(char* to, std::size_t size) {
  openssl().ERR_clear_error();
  std::size_t bytes = 0;
  const int result = openssl().SSL_read_ex(ssl_.get(), to, size, &bytes);
  return result == 1 ? Transfer{Status::done, bytes} : Transfer{status_of(result), 0};
}

TlsStream::Transfer TlsStream::write(const char* from, std::size_t size) {
  openssl().ERR_clear_error();
  std::size_t bytes = 0;
  const int result = openssl().SSL_write_ex(ssl_.get(), from, size, &bytes);
  return result == 1 ? Transfer{Status::done, bytes} : Transfer{status_of(result), 0};
}

void TlsStream::end_writing() {
  openssl().ERR_clear_error();
  // If there is no room for it, the end of the TCP stream has the same meaning, without proof.
  openssl().SSL_shutdown(ssl_.get());
  ::shutdown(socket_.get(), SHUT_WR);
}

TlsStream::Status TlsStream::status_of(int result) {
  const int saved_errno = errno;
  switch (openssl().SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Status::want_read;
    case SSL_ERROR_WANT_WRITE:
      return Status::want_write;
    case SSL_ERROR_ZERO_RETURN:
      return Status::closed;
    case SSL_ERROR_SYSCALL:
      error_ = saved_errno == 0 ? "the connection was cut" : std::strerror(saved_errno);
      return Status::failed;
    default:
      break;
  }
  error_ = ERR_GET_REASON(openssl().ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
               ? "the connection was cut"
               : last_error();
  return Status::failed;
}

}  // namespace hvdrun
