// TLS 1.3 over a connected socket, with a key that both ends share (RFC 8446, section 4.2.11).
//
// It uses no certificates: an end without the key cannot finish the handshake, and each end
// continues only after it has seen that the other has the key. Each connection also agrees on fresh
// keys (psk_dhe_ke), so that an attacker who learns the shared key later cannot read recorded data.
// No resumption, no early data.
//
// One thread at a time. No function waits or raises SIGPIPE. Errors are values, or errno as of
// send(2) and recv(2).
#pragma once

#include "base/result.hpp"
#include "common/sha256.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <sys/types.h>

struct ssl_st;

namespace libhvd {

class Tls {
 public:
  enum class Side { client, server };

  // Checks that OpenSSL 3 can be opened. Error (HVD_ERROR_UNSUPPORTED): it cannot; names the
  // package that has it.
  static Result<void> check_available();

  // A sending key is replaced after this many records. AES-GCM allows about 2^24.5 records of full
  // size (RFC 8446, section 5.5). Tests use fewer. `socket`: non-blocking; the caller owns it and
  // keeps it open as long as this object exists.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 23;
  static Result<std::unique_ptr<Tls>> start(int socket, Side side, const Digest& key,
                                            std::uint64_t records_per_key = kRecordsPerKey);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // Continues the handshake. Returns 0 when it is done and the other end has the key; otherwise the
  // events to wait for with poll(2) before the next call. Error (HVD_ERROR_PEER): the other end
  // does not have the key, or does not speak TLS.
  Result<short> handshake();

  // Like send(2) and recv(2) on a non-blocking socket. A smaller result than asked for means that
  // there is no more room or no more data now. Until receive() has returned less than asked for,
  // data may be waiting here that poll(2) does not see. Bytes that send() has not taken must be
  // offered again unchanged. EBADMSG: the received data was changed on its way, or is not TLS.
  ssize_t send(const void* data, std::size_t bytes);
  ssize_t receive(void* data, std::size_t bytes);

 private:
  struct Wire {
    int socket = -1;
    bool ended = false;  // the other end has closed
    int error = 0;       // of the last send(2) or recv(2) that failed
    bool holds = false;  // bytes that the socket has no room for are kept in `held`
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
  std::optional<int> receive_over_;  // 0: the other end has closed; otherwise errno
  std::optional<int> send_over_;     // errno
  ssl_st* ssl_ = nullptr;
};

}  // namespace libhvd
