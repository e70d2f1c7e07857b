// Two ends of a TCP connection on loopback, and TLS over them, for tests.
#pragma once

#include "base/event_loop.hpp"
#include "channels/tls_stream.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace hvdrun {

struct SocketPair {
  Fd client;
  Fd server;
};

// Connected over `address`, which is one of loopback; both non-blocking.
SocketPair tcp_pair(const std::string& address = "127.0.0.1");

// A blocking TCP socket, connected to there.
Fd connect_to(const std::string& address, int port);

struct TlsPair {
  TlsStream client;
  TlsStream server;
};

// Streams whose handshakes have not begun.
TlsPair tls_pair(const LinkKey& client_key, const LinkKey& server_key);

struct Handshakes {
  TlsStream::Status client;
  TlsStream::Status server;
};

// Turn by turn, until both have ended.
Handshakes shake_hands(TlsPair& pair);

// Runs the loop until `done`; fails the test, naming `what`, when it never is.
void run_until(EventLoop& loop, const std::function<bool()>& done, const char* what);

}  // namespace hvdrun
