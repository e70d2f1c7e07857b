// TLS 1.3 over a connected socket, with a key that both ends share (RFC 8446, section 4.2.11).
//
// No certificates: an end without the key cannot finish the handshake, and neither end goes on
// without having seen that the other has it. Keys are also agreed afresh (psk_dhe_ke), so that who
// learns the key later cannot read what was recorded. No resumption, no early data.
//
// One thread at a time; nothing waits, nothing raises SIGPIPE.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "common/sha256.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sys/types.h>
#include <sys/uio.h>

struct ssl_st;

namespace libhvd {

class Tls {
 public:
  enum class Side { client, server };

  // Whether OpenSSL 3 is there. Error (HVD_ERROR_UNSUPPORTED): it is not, and which package has it.
  static Result<void> check_available();

  // `socket`: non-blocking; stays the caller's, and open until this has gone. A sending key is
  // replaced after so many records (a test takes fewer): AES-GCM is good for about 2^24.5 of full
  // size (RFC 8446, section 5.5).
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 23;
  static Result<std::unique_ptr<Tls>> start(int socket, Side side, const Digest& key,
                                            std::uint64_t records_per_key = kRecordsPerKey);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // 0: done, the other end has the key. Else what to wait for with poll(2) before the next call.
  // HVD_ERROR_PEER: it has not, or speaks something else.
  Result<short> handshake();

  // As send(2) and recv(2) on a non-blocking socket; less than asked means that there is no more
  // room or no more data now. Data may be waiting in here that poll(2) knows nothing of, until
  // receive() has given less than asked. What send() has not taken must be offered again, the same
  // bytes. EBADMSG: what came was changed on its way, or is not TLS.
  ssize_t send(const void* data, std::size_t bytes);
  ssize_t receive(void* data, std::size_t bytes);

 private:
  struct Wire {
    int socket = -1;
    bool ended = false;  // the other end has closed
    int error = 0;       // of the last send(2) or recv(2) that failed
    bool holds = false;  // what the socket has no room for now is taken nevertheless
    std::vector<char> held = {};
  };
  friend struct TlsCallbacks;

  Tls(int socket, const Digest& key, std::uint64_t records_per_key);
  int reason(int result) const;
  bool replace_key();

  Wire wire_;
  Digest key_;
  std::uint64_t records_per_key_;
  std::uint64_t records_ = 0;        // sent with the present key
  std::optional<int> receive_over_;  // 0: the other end has closed; else errno
  std::optional<int> send_over_;     // errno
  ssl_st* ssl_ = nullptr;
};

// A connected, non-blocking stream socket to another process: in the clear, or over TLS.
//
// One thread at a time.

class Connection {
 public:
  Connection() = default;
  Connection(Fd socket) : socket_(std::move(socket)) {}  // NOLINT(google-explicit-constructor)
  // Over TLS, whose handshake is done.
  Connection(Fd socket, std::unique_ptr<Tls> tls)
      : socket_(std::move(socket)), tls_(std::move(tls)) {}

  explicit operator bool() const { return static_cast<bool>(socket_); }
  const Fd& socket() const { return socket_; }
  int get() const { return socket_.get(); }

  // Tells the other end nothing, and touches nothing but the descriptor: safe in a forked child,
  // whatever other threads were doing.
  void close() { socket_.reset(); }

  // As send(2) with MSG_NOSIGNAL, recv(2), sendmsg(2) and recvmsg(2). Over TLS: as Tls has them.
  ssize_t send(const void* data, std::size_t bytes) const;
  ssize_t receive(void* data, std::size_t bytes) const;
  ssize_t send(std::span<iovec> parts) const;
  ssize_t receive(std::span<iovec> parts) const;

 private:
  Fd socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace libhvd
