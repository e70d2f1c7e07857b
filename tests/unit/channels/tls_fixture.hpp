// Both ends of a TCP connection on loopback, and TLS over them, for tests.
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

// Returns connected non-blocking sockets. `address` is one of loopback.
SocketPair tcp_pair(const std::string& address = "127.0.0.1");

// Returns a blocking TCP socket that is connected to the address.
Fd connect_to(const std::string& address, int port);

struct TlsPair {
  TlsStream client;
  TlsStream server;
};

// Returns streams whose handshakes have not begun.
TlsPair tls_pair(const LinkKey& client_key, const LinkKey& server_key);

struct Handshakes {
  TlsStream::Status client;
  TlsStream::Status server;
};

// Runs both handshakes in turn, until both have ended.
Handshakes shake_hands(TlsPair& pair);

// Runs the loop until `done` returns true. After a time limit it fails the test and names `what`.
void run_until(EventLoop& loop, const std::function<bool()>& done, const char* what);

}  // namespace hvdrun
