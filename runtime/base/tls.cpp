#include "base/tls.hpp"

#include "base/openssl_library.hpp"
#include "common/fd.hpp"
#include "common/shared_library.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <poll.h>
#include <sys/socket.h>

namespace libhvd {

// The functions that OpenSSL calls.
struct TlsCallbacks {
  static Tls::Wire& wire(bio_st* bio);
  static int write(bio_st* bio, const char* data, std::size_t bytes, std::size_t* written);
  static int read(bio_st* bio, char* data, std::size_t bytes, std::size_t* got);
  static long control(bio_st*, int what, long, void*);
  static const Digest& key_of(const ssl_st* ssl);
  static ssl_session_st* session_of(ssl_st* ssl);
  static int offer_key(ssl_st* ssl, const evp_md_st* /*of the suite that was agreed on*/,
                       const unsigned char** identity, std::size_t* size, ssl_session_st** session);
  static int find_key(ssl_st* ssl, const unsigned char* identity, std::size_t size,
                      ssl_session_st** session);
};

namespace {

using namespace openssl;

// What every TLS 1.3 must have (RFC 8446, 9.1). A PSK belongs to a hash, so one suite keeps both
// ends agreed.
constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kSuiteNumber[] = {0x13, 0x01};
constexpr char kGroups[] = "X25519:P-256";
constexpr std::string_view kIdentity = "hvd";  // goes over the wire in the clear
constexpr int kOwnerIndex = 0;                 // SSL_set_app_data(3)
constexpr std::size_t kMostRecord = 16384;     // RFC 8446, 5.1
constexpr std::size_t kReadAhead = 4 * (kMostRecord + 256);

// Of the process, and never freed: connections may outlive the exit handlers.
struct Shared {
  OpensslLibrary library;
  bio_method_st* wire = nullptr;
  ssl_ctx_st* client = nullptr;
  ssl_ctx_st* server = nullptr;
};

const Result<Shared>& shared();
const OpensslLibrary& ssl_library() {
  return shared()->library;
}

std::string last_words(const OpensslLibrary& library) {
  const unsigned long code = library.ERR_peek_error();
  const char* const text = code == 0 ? nullptr : library.ERR_reason_error_string(code);
  return text == nullptr ? "no reason given" : text;
}

// OpenSSL's macros SSL_CTX_set_… call SSL_CTX_ctrl(3) with these.
bool set_up(const OpensslLibrary& library, ssl_ctx_st* context) {
  if (context == nullptr) return false;
  const auto control = [&](int what, long number, const void* data = nullptr) {
    return library.SSL_CTX_ctrl(context, what, number, const_cast<void*>(data));
  };
  control(kControlSessionCache, 0);
  control(kControlMode, kModePartialWrite | kModeMovingWriteBuffer | kModeReleaseBuffers);
  control(kControlReadAhead, 1);  // else each record takes two calls of recv(2)
  library.SSL_CTX_set_default_read_buffer_len(context, kReadAhead);
  return control(kControlLeastVersion, kTls13) == 1 && control(kControlGroups, 0, kGroups) == 1 &&
         library.SSL_CTX_set_ciphersuites(context, kSuite) == 1 &&
         library.SSL_CTX_set_num_tickets(context, 0) == 1;
}

Result<Shared> set_up_all() {
  Shared made;
  HVD_TRY(made.library, OpensslLibrary::load("libssl.so.3"));
  const OpensslLibrary& library = made.library;
  // Its own exit handler would take from under connections what they stand on.
  library.OPENSSL_init_ssl(kInitNoAtexit, nullptr);
  library.ERR_clear_error();
  made.wire = library.BIO_meth_new(library.BIO_get_new_index() | kBioTypeSourceSink, "hvd socket");
  made.client = library.SSL_CTX_new(library.TLS_client_method());
  made.server = library.SSL_CTX_new(library.TLS_server_method());
  if (made.wire == nullptr || !set_up(library, made.client) || !set_up(library, made.server))
    return fail(HVD_ERROR_UNSUPPORTED, "HVD_DATA_TLS=1: OpenSSL cannot be set up for TLS 1.3 (" +
                                           last_words(library) + ")");
  library.BIO_meth_set_write_ex(made.wire, TlsCallbacks::write);
  library.BIO_meth_set_read_ex(made.wire, TlsCallbacks::read);
  library.BIO_meth_set_ctrl(made.wire, TlsCallbacks::control);
  library.SSL_CTX_set_psk_find_session_callback(made.server, TlsCallbacks::find_key);
  library.SSL_CTX_set_psk_use_session_callback(made.client, TlsCallbacks::offer_key);
  // A server that has no key could offer a certificate instead: none is trusted.
  library.SSL_CTX_set_verify(made.client, kVerifyPeer, nullptr);
  return made;
}

const Result<Shared>& shared() {
  static const auto* const made = new Result<Shared>(set_up_all());
  return *made;
}

}  // namespace

Result<OpensslLibrary> OpensslLibrary::load(const char* soname) {
  const auto refuse = [](const std::string& why) {
    return fail(HVD_ERROR_UNSUPPORTED,
                "HVD_DATA_TLS=1 needs OpenSSL 3, package libssl3 or openssl-libs (" + why + ")");
  };
  const auto library = SharedLibrary::open(soname);
  if (!library) return refuse(library.error());
  OpensslLibrary opened;
#define HVD_OPENSSL_LOAD(name, result, parameters) \
  if (!library->find(#name, opened.name)) return refuse(std::string(soname) + " has no " #name);
  HVD_OPENSSL_FUNCTIONS(HVD_OPENSSL_LOAD)
#undef HVD_OPENSSL_LOAD
  return opened;
}

Tls::Wire& TlsCallbacks::wire(bio_st* bio) {
  return *static_cast<Tls::Wire*>(ssl_library().BIO_get_data(bio));
}

int TlsCallbacks::write(bio_st* bio, const char* data, std::size_t bytes, std::size_t* written) {
  ssl_library().BIO_clear_flags(bio, kBioRead | kBioWrite | kBioSpecial | kBioRetry);
  Tls::Wire& to = wire(bio);
  ssize_t sent = 0;
  while (!to.held.empty() && sent >= 0) {
    sent = ::send(to.socket, to.held.data(), to.held.size(), MSG_NOSIGNAL);
    if (sent > 0) to.held.erase(to.held.begin(), to.held.begin() + sent);
  }
  if (sent >= 0) sent = ::send(to.socket, data, bytes, MSG_NOSIGNAL);
  if (sent < 0 && !would_block(errno)) {
    to.error = errno;
    return 0;
  }
  const std::size_t taken = sent > 0 ? static_cast<std::size_t>(sent) : 0;
  if (to.holds) {
    to.held.insert(to.held.end(), data + taken, data + bytes);
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

long TlsCallbacks::control(bio_st*, int what, long, void*) {
  return what == kBioFlush ? 1 : 0;
}

const Digest& TlsCallbacks::key_of(const ssl_st* ssl) {
  return static_cast<const Tls*>(ssl_library().SSL_get_ex_data(ssl, kOwnerIndex))->key_;
}

// The key in the form in which OpenSSL takes it; null: no memory.
ssl_session_st* TlsCallbacks::session_of(ssl_st* ssl) {
  const OpensslLibrary& library = ssl_library();
  const Digest& key = key_of(ssl);
  ssl_session_st* const session = library.SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (library.SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
      library.SSL_SESSION_set_cipher(session, library.SSL_CIPHER_find(ssl, kSuiteNumber)) == 1 &&
      library.SSL_SESSION_set_protocol_version(session, kTls13) == 1)
    return session;
  library.SSL_SESSION_free(session);
  return nullptr;
}

// SSL_CTX_set_psk_use_session_callback(3)
int TlsCallbacks::offer_key(ssl_st* ssl, const evp_md_st* /*of the suite that was agreed on*/,
                            const unsigned char** identity, std::size_t* size,
                            ssl_session_st** session) {
  *session = session_of(ssl);
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  return *session != nullptr ? 1 : 0;
}

// SSL_CTX_set_psk_find_session_callback(3): without a session there is no key, and so, without a
// certificate, no handshake.
int TlsCallbacks::find_key(ssl_st* ssl, const unsigned char* identity, std::size_t size,
                           ssl_session_st** session) {
  *session = nullptr;
  if (std::string_view(reinterpret_cast<const char*>(identity), size) != kIdentity) return 1;
  *session = session_of(ssl);
  return *session != nullptr ? 1 : 0;
}

Result<void> Tls::check_available() {
  if (!shared().ok()) return shared().error();
  return {};
}

Tls::Tls(int socket, const Digest& key, std::uint64_t records_per_key)
    : key_(key), records_per_key_(records_per_key) {
  wire_.socket = socket;
}

Tls::~Tls() {
  if (ssl_ != nullptr) ssl_library().SSL_free(ssl_);
  ::explicit_bzero(key_.data(), key_.size());
}

Result<std::unique_ptr<Tls>> Tls::start(int socket, Side side, const Digest& key,
                                        std::uint64_t records_per_key) {
  HVD_CHECK(check_available());
  const OpensslLibrary& library = ssl_library();
  std::unique_ptr<Tls> tls(new Tls(socket, key, records_per_key));
  library.ERR_clear_error();
  tls->ssl_ = library.SSL_new(side == Side::server ? shared()->server : shared()->client);
  bio_st* const bio = tls->ssl_ == nullptr ? nullptr : library.BIO_new(shared()->wire);
  if (bio == nullptr)
    return fail(HVD_ERROR_SYSTEM, "cannot set up a TLS connection (" + last_words(library) + ")");
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

// Why a call did nothing: EAGAIN; 0, the other end has closed; or what is wrong.
int Tls::reason(int result) const {
  switch (ssl_library().SSL_get_error(ssl_, result)) {
    case kErrorWantRead:
    case kErrorWantWrite:
      return EAGAIN;
    case kErrorZeroReturn:
      return 0;
    default:
      break;
  }
  if (wire_.error != 0) return wire_.error;
  return wire_.ended ? 0 : EBADMSG;
}

Result<short> Tls::handshake() {
  const OpensslLibrary& library = ssl_library();
  library.ERR_clear_error();
  const int result = library.SSL_do_handshake(ssl_);
  if (result == 1) {
    ::explicit_bzero(key_.data(), key_.size());
    if (library.SSL_session_reused(ssl_) == 1) return short{0};
    return fail(HVD_ERROR_PEER, "TLS: the other side does not have the key");
  }
  const int error = library.SSL_get_error(ssl_, result);
  if (error == kErrorWantRead) return short{POLLIN};
  if (error == kErrorWantWrite) return short{POLLOUT};
  if (wire_.ended || wire_.error != 0)
    return fail(HVD_ERROR_PEER, "the other side has closed the connection");
  return fail(HVD_ERROR_PEER, "TLS: " + last_words(library));
}

// Called when no record waits to be sent. The word of it must not wait for room: until it is said
// OpenSSL does not read, and where both ends say it at once neither would.
bool Tls::replace_key() {
  const OpensslLibrary& library = ssl_library();
  wire_.holds = true;
  const bool said = library.SSL_key_update(ssl_, kKeyUpdateNotRequested) == 1 &&
                    library.SSL_do_handshake(ssl_) == 1;
  wire_.holds = false;
  records_ = 0;
  return said;
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

}  // namespace libhvd
