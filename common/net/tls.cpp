#include "common/net/tls.hpp"

#include "common/fd.hpp"
#include "common/net/openssl_library.hpp"

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

namespace common {

// The functions that OpenSSL calls.
struct TlsCallbacks {
  static int write(bio_st* bio, const char* data, std::size_t bytes, std::size_t* written);
  static int read(bio_st* bio, char* data, std::size_t bytes, std::size_t* got);
  static long control(bio_st*, int what, long, void*) { return what == openssl::kBioFlush ? 1 : 0; }

  // The client's key, for SSL_CTX_set_psk_use_session_callback(3). The second parameter is the
  // digest of the suite that was agreed on.
  static int offer_key(ssl_st* ssl, const evp_md_st*, const unsigned char** identity,
                       std::size_t* size, ssl_session_st** session);

  // The server's key, for SSL_CTX_set_psk_find_session_callback(3). Leaves `session` null for a
  // wrong identity. The handshake then fails, because there is no certificate either.
  static int find_key(ssl_st* ssl, const unsigned char* identity, std::size_t size,
                      ssl_session_st** session);

 private:
  static Tls::Wire& wire(bio_st* bio);
  static Tls& owner(const ssl_st* ssl);
  static ssl_session_st* session_of(ssl_st* ssl);
};

namespace {

using namespace openssl;

// Every implementation of TLS 1.3 has this suite (RFC 8446, 9.1). A PSK belongs to a hash, so with
// one suite both ends always agree.
constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kSuiteNumber[] = {0x13, 0x01};
constexpr char kGroups[] = "X25519:P-256";
constexpr int kOwnerIndex = 0;  // SSL_set_app_data(3)
constexpr std::size_t kReadAhead = 4 * (Tls::kMostRecord + 256);

// What all connections of the process share. Never freed, because connections may outlive the exit
// handlers.
struct Shared {
  OpensslLibrary library;
  bio_method_st* wire = nullptr;
  ssl_ctx_st* client = nullptr;
  ssl_ctx_st* server = nullptr;
};

// Returns OpenSSL's reason for the last error of this thread.
std::string last_reason(const OpensslLibrary& library) {
  const unsigned long code = library.ERR_peek_error();
  const char* const text = code == 0 ? nullptr : library.ERR_reason_error_string(code);
  return text == nullptr ? "no reason given" : text;
}

// Sets the options of a context. OpenSSL's macros SSL_CTX_set_… call SSL_CTX_ctrl(3) in this way.
bool set_up(const OpensslLibrary& library, ssl_ctx_st* context) {
  if (context == nullptr) return false;
  const auto control = [&](int what, long number, const void* data = nullptr) {
    return library.SSL_CTX_ctrl(context, what, number, const_cast<void*>(data));
  };
  control(kControlSessionCache, 0);
  control(kControlMode, kModePartialWrite | kModeMovingWriteBuffer | kModeReleaseBuffers);
  control(kControlReadAhead, 1);  // otherwise each record takes two calls of recv(2)
  library.SSL_CTX_set_default_read_buffer_len(context, kReadAhead);
  return control(kControlLeastVersion, kTls13) == 1 && control(kControlGroups, 0, kGroups) == 1 &&
         library.SSL_CTX_set_ciphersuites(context, kSuite) == 1 &&
         library.SSL_CTX_set_num_tickets(context, 0) == 1;
}

Result<Shared, std::string> set_up_all() {
  Shared made;
  HVD_TRY(made.library, OpensslLibrary::load("libssl.so.3"));
  const OpensslLibrary& library = made.library;
  // Without OpenSSL's own exit handler, which would free what connections still use.
  library.OPENSSL_init_ssl(kInitNoAtexit, nullptr);
  library.ERR_clear_error();
  made.wire = library.BIO_meth_new(library.BIO_get_new_index() | kBioTypeSourceSink, "hvd socket");
  made.client = library.SSL_CTX_new(library.TLS_client_method());
  made.server = library.SSL_CTX_new(library.TLS_server_method());
  if (made.wire == nullptr || !set_up(library, made.client) || !set_up(library, made.server))
    return "OpenSSL cannot be set up for TLS 1.3 (" + last_reason(library) + ")";
  library.BIO_meth_set_write_ex(made.wire, TlsCallbacks::write);
  library.BIO_meth_set_read_ex(made.wire, TlsCallbacks::read);
  library.BIO_meth_set_ctrl(made.wire, TlsCallbacks::control);
  library.SSL_CTX_set_psk_find_session_callback(made.server, TlsCallbacks::find_key);
  library.SSL_CTX_set_psk_use_session_callback(made.client, TlsCallbacks::offer_key);
  // A server without the key could offer a certificate instead. With this none is trusted.
  library.SSL_CTX_set_verify(made.client, kVerifyPeer, nullptr);
  return made;
}

const Result<Shared, std::string>& shared() {
  static const auto* const made = new Result<Shared, std::string>(set_up_all());
  return *made;
}

// Call it only if shared() is ok.
const OpensslLibrary& ssl_library() {
  return shared()->library;
}

}  // namespace

Tls::Wire& TlsCallbacks::wire(bio_st* bio) {
  return *static_cast<Tls::Wire*>(ssl_library().BIO_get_data(bio));
}

int TlsCallbacks::write(bio_st* bio, const char* data, std::size_t bytes, std::size_t* written) {
  ssl_library().BIO_clear_flags(bio, kBioRead | kBioWrite | kBioSpecial | kBioRetry);
  Tls::Wire& to = wire(bio);
  ssize_t sent = 0;
  while (!to.unsent.empty() && sent >= 0) {
    sent = ::send(to.socket, to.unsent.data(), to.unsent.size(), MSG_NOSIGNAL);
    if (sent > 0) to.unsent.erase(to.unsent.begin(), to.unsent.begin() + sent);
  }
  if (sent >= 0) sent = ::send(to.socket, data, bytes, MSG_NOSIGNAL);
  if (sent < 0 && !would_block(errno)) {
    to.error = errno;
    return 0;
  }
  const std::size_t taken = sent > 0 ? static_cast<std::size_t>(sent) : 0;
  if (to.buffers) {
    to.unsent.insert(to.unsent.end(), data + taken, data + bytes);
    *written = bytes;
    return 1;
  }
  if (sent >= 0) {
    *written = taken;
    return 1;
  }
  ssl_library().BIO_set_flags(bio, kBioWrite | kBioRetry);
  return 0;
}

int TlsCallbacks::read(bio_st* bio, char* data, std::size_t bytes, std::size_t* got) {
  ssl_library().BIO_clear_flags(bio, kBioRead | kBioWrite | kBioSpecial | kBioRetry);
  const ssize_t count = ::recv(wire(bio).socket, data, bytes, 0);
  if (count > 0) {
    *got = static_cast<std::size_t>(count);
    return 1;
  }
  if (count == 0) {
    wire(bio).ended = true;
  } else if (would_block(errno)) {
    ssl_library().BIO_set_flags(bio, kBioRead | kBioRetry);
  } else {
    wire(bio).error = errno;
  }
  return 0;
}

Tls& TlsCallbacks::owner(const ssl_st* ssl) {
  return *static_cast<Tls*>(ssl_library().SSL_get_ex_data(ssl, kOwnerIndex));
}

// Returns the key in the form that OpenSSL takes. Returns null if there is no memory.
ssl_session_st* TlsCallbacks::session_of(ssl_st* ssl) {
  const OpensslLibrary& library = ssl_library();
  const auto& secret = owner(ssl).key_.secret;
  ssl_session_st* const session = library.SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (library.SSL_SESSION_set1_master_key(session, secret.data(), secret.size()) == 1 &&
      library.SSL_SESSION_set_cipher(session, library.SSL_CIPHER_find(ssl, kSuiteNumber)) == 1 &&
      library.SSL_SESSION_set_protocol_version(session, kTls13) == 1)
    return session;
  library.SSL_SESSION_free(session);
  return nullptr;
}

int TlsCallbacks::offer_key(ssl_st* ssl, const evp_md_st*, const unsigned char** identity,
                            std::size_t* size, ssl_session_st** session) {
  const std::string& own = owner(ssl).key_.identity;
  *session = session_of(ssl);
  *identity = reinterpret_cast<const unsigned char*>(own.data());
  *size = own.size();
  return *session != nullptr ? 1 : 0;
}

int TlsCallbacks::find_key(ssl_st* ssl, const unsigned char* identity, std::size_t size,
                           ssl_session_st** session) {
  *session = nullptr;
  Tls& own = owner(ssl);
  if (std::string_view(reinterpret_cast<const char*>(identity), size) != own.key_.identity)
    return 1;
  *session = session_of(ssl);
  // OpenSSL checks the client's binder with this key next. If it is wrong the handshake fails.
  own.client_has_shown_key_ = *session != nullptr;
  return *session != nullptr ? 1 : 0;
}

Result<void, std::string> Tls::check_available() {
  if (!shared().ok()) return shared().error();
  return {};
}

Tls::Tls(int socket, TlsKey key, std::uint64_t records_per_key)
    : key_(std::move(key)), records_per_key_(records_per_key) {
  wire_.socket = socket;
}

Tls::~Tls() {
  if (ssl_ != nullptr) ssl_library().SSL_free(ssl_);
  ::explicit_bzero(key_.secret.data(), key_.secret.size());
}

Result<std::unique_ptr<Tls>, std::string> Tls::start(int socket, Side side, TlsKey key,
                                                     std::uint64_t records_per_key) {
  HVD_CHECK(check_available());
  const OpensslLibrary& library = ssl_library();
  std::unique_ptr<Tls> tls(new Tls(socket, std::move(key), records_per_key));
  library.ERR_clear_error();
  tls->ssl_ = library.SSL_new(side == Side::server ? shared()->server : shared()->client);
  bio_st* const bio = tls->ssl_ == nullptr ? nullptr : library.BIO_new(shared()->wire);
  if (bio == nullptr) return "cannot set up a TLS connection (" + last_reason(library) + ")";
  library.BIO_set_data(bio, &tls->wire_);
  library.BIO_set_init(bio, 1);
  library.SSL_set_bio(tls->ssl_, bio, bio);
  library.SSL_set_ex_data(tls->ssl_, kOwnerIndex, tls.get());
  if (side == Side::server) {
    library.SSL_set_accept_state(tls->ssl_);
  } else {
    library.SSL_set_connect_state(tls->ssl_);
  }
  return tls;
}

// Returns why a call did nothing: EAGAIN, 0 if the other end has closed, or the errno of a failure.
int Tls::reason(int result) {
  switch (ssl_library().SSL_get_error(ssl_, result)) {
    case kErrorWantRead:
    case kErrorWantWrite:
      return EAGAIN;
    case kErrorZeroReturn:
      has_ended_properly_ = true;
      return 0;
    default:
      break;
  }
  if (wire_.error != 0) return wire_.error;
  return wire_.ended ? 0 : EBADMSG;
}

Result<short, std::string> Tls::handshake() {
  const OpensslLibrary& library = ssl_library();
  library.ERR_clear_error();
  const int result = library.SSL_do_handshake(ssl_);
  if (result == 1) {
    ::explicit_bzero(key_.secret.data(), key_.secret.size());
    if (library.SSL_session_reused(ssl_) == 1) return short{0};
    return std::string("TLS: the other side does not have the key");
  }
  const int error = library.SSL_get_error(ssl_, result);
  if (error == kErrorWantRead) return short{POLLIN};
  if (error == kErrorWantWrite) return short{POLLOUT};
  client_has_shown_key_ = false;
  if (wire_.ended || wire_.error != 0)
    return std::string("the other side has closed the connection");
  return "TLS: " + last_reason(library);
}

// Replaces the sending key. Call it only when no record waits to be sent. The message about it must
// not wait for room in the socket: OpenSSL does not read until it is sent, so if both ends sent it
// at the same time and waited, neither would read. Returns false if the connection has failed.
bool Tls::replace_key() {
  const OpensslLibrary& library = ssl_library();
  wire_.buffers = true;
  const bool sent = library.SSL_key_update(ssl_, kKeyUpdateNotRequested) == 1 &&
                    library.SSL_do_handshake(ssl_) == 1;
  wire_.buffers = false;
  records_ = 0;
  return sent;
}

ssize_t Tls::send(const void* data, std::size_t bytes) {
  const OpensslLibrary& library = ssl_library();
  const auto* const from = static_cast<const std::byte*>(data);
  std::size_t sent = 0;
  bool full = false;
  while (sent < bytes && !send_over_ && !full) {
    library.ERR_clear_error();
    if (records_ >= records_per_key_ && !replace_key()) {
      send_over_ = wire_.error != 0 ? wire_.error : EBADMSG;
      break;
    }
    std::size_t count = 0;
    const int result = library.SSL_write_ex(ssl_, from + sent, bytes - sent, &count);
    if (result == 1) {
      sent += count;
      records_ += (count + kMostRecord - 1) / kMostRecord;
      continue;
    }
    const int error = reason(result);
    full = error == EAGAIN;
    if (!full) send_over_ = error == 0 ? EPIPE : error;
  }
  if (sent > 0 || bytes == 0) return static_cast<ssize_t>(sent);
  errno = send_over_.value_or(EAGAIN);
  return -1;
}

ssize_t Tls::receive(void* data, std::size_t bytes) {
  const OpensslLibrary& library = ssl_library();
  auto* const to = static_cast<std::byte*>(data);
  std::size_t got = 0;
  bool empty = false;
  while (got < bytes && !receive_over_ && !empty) {
    library.ERR_clear_error();
    std::size_t count = 0;
    const int result = library.SSL_read_ex(ssl_, to + got, bytes - got, &count);
    if (result == 1) {
      got += count;
      continue;
    }
    const int error = reason(result);
    empty = error == EAGAIN;
    if (!empty) receive_over_ = error;
  }
  if (got > 0) return static_cast<ssize_t>(got);
  if (receive_over_ == 0 || bytes == 0) return 0;
  errno = receive_over_.value_or(EAGAIN);
  return -1;
}

void Tls::end_sending() {
  ssl_library().ERR_clear_error();
  ssl_library().SSL_shutdown(ssl_);
}

}  // namespace common
