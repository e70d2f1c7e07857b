// TLS 1.3 over a connected socket, with a key that both ends share (RFC 8446, section 4.2.11).
//
// There are no certificates: an end without the key cannot finish the handshake, and neither end
// sends data before it has seen that the other end has the key. Session keys are also agreed anew
// (psk_dhe_ke), so that an eavesdropper who learns the key later cannot read recorded data. No
// resumption, no early data.
//
// One thread at a time. No function blocks or raises SIGPIPE.
#pragma once

#include "common/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

struct ssl_st;

namespace common {

// What both ends of a connection share.
struct TlsKey {
  std::string identity;  // the key's name, which is no secret: it is sent unencrypted
  std::array<std::uint8_t, 32> secret{};
};

class Tls {
 public:
  enum class Side { client, server };

  // The most bytes of one record (RFC 8446, 5.1).
  static constexpr std::size_t kMostRecord = 16384;

  // Opens OpenSSL 3; the first call does. Error: it is not installed, or too old; the text names
  // the package.
  static Result<void, std::string> check_available();

  // Starts TLS on a socket; call handshake() next. `socket` is non-blocking and the caller's, who
  // keeps it open longer than this object. A sending key is replaced after `records_per_key`
  // records (tests use fewer), because AES-GCM is safe for about 2^24.5 records of full size (RFC
  // 8446, section 5.5). Error: OpenSSL is missing, or has no memory.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 23;
  static Result<std::unique_ptr<Tls>, std::string> start(
      int socket, Side side, TlsKey key, std::uint64_t records_per_key = kRecordsPerKey);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // Continues the handshake. Returns 0 when it is done and the other end has proven the key.
  // Otherwise returns the event of poll(2) to wait for before the next call. Error: the other end
  // does not have the key, does not speak TLS or has closed the connection.
  Result<short, std::string> handshake();

  // Returns whether a server has received the client's whole first message, and that shows that the
  // client has the key (its PSK binder, RFC 8446, 4.2.11.2). It may be a copy of another's message.
  bool client_has_shown_key() const { return client_has_shown_key_; }

  // Like send(2) and recv(2) on a non-blocking socket. A result smaller than `bytes` means that
  // there is no more room or no more data now. Until receive() has returned less than `bytes`, this
  // object may hold data that poll(2) does not report. Bytes that send() has not taken must be
  // passed again unchanged. EBADMSG: the received data was changed on its way, or is not TLS.
  // EAGAIN of receive() needs more data to arrive, never room to send.
  ssize_t send(const void* data, std::size_t bytes);
  ssize_t receive(void* data, std::size_t bytes);

  // Sends that no more data follows (close_notify), if there is room.
  void end_sending();

  // Returns whether the other end has sent that. After receive() has returned 0, false means that
  // the connection was cut, and data may be missing.
  bool has_ended_properly() const { return has_ended_properly_; }

 private:
  struct Wire {
    int socket = -1;
    bool ended = false;             // the other end has closed
    int error = 0;                  // errno of the last send(2) or recv(2) that failed
    bool buffers = false;           // keep in `unsent` what the socket has no room for
    std::vector<char> unsent = {};  // goes before everything else
  };
  friend struct TlsCallbacks;

  Tls(int socket, TlsKey key, std::uint64_t records_per_key);
  int reason(int result);
  bool replace_key();

  Wire wire_;
  TlsKey key_;
  std::uint64_t records_per_key_;
  std::uint64_t records_ = 0;        // sent with the current key
  std::optional<int> receive_over_;  // set at the end: 0 if the other end has closed, else errno
  std::optional<int> send_over_;     // set at the end: errno
  bool client_has_shown_key_ = false;
  bool has_ended_properly_ = false;
  ssl_st* ssl_ = nullptr;
};

}  // namespace common
