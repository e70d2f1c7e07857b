// Where agents knock: listening sockets, and the connections that have not proved the key yet.
//
// Whoever can reach the port can connect, so a connection costs little until it has proved the key:
// one that says nothing stays in the kernel (TCP_DEFER_ACCEPT); TLS only when its first bytes begin
// a TLS handshake; a time limit for all of it; and so many at once. When one more comes the oldest
// gives way whose first message has not shown the key, so that nobody without it pushes out an
// agent. Nothing of a refused connection is answered or shown, only counted.
//
// On the loop's thread. SIGPIPE must be ignored or blocked.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_hello.hpp"
#include "channels/tls_stream.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class TlsListener {
 public:
  struct Limits {
    std::size_t waiting = 256;                 // connections without proof at one time
    std::chrono::milliseconds timeout{10000};  // from the first bytes to the hello
  };
  struct Events {
    // The number of the agent of that name, when it is waited for. Without: the connection is
    // dropped.
    std::function<std::optional<std::uint32_t>(const AgentHello&)> number_of;
    // Has the key, has said who it is, and was told that it is welcome. May close the listener, and
    // may destroy it.
    std::function<void(const AgentHello&, TlsStream)> on_agent;
  };

  // Listens on each address, on a port that the kernel picks; an address on which that is not
  // possible is left out. Error: none was left.
  static Result<std::unique_ptr<TlsListener>> open(const EventLoop& loop, const LinkKey& key,
                                                   const std::vector<std::string>& addresses,
                                                   Limits limits, Events events);
  ~TlsListener();
  TlsListener(const TlsListener&) = delete;
  TlsListener& operator=(const TlsListener&) = delete;

  // Where it listens.
  const std::vector<LinkAddress>& addresses() const { return addresses_; }

  // Nobody else comes in; those that wait are dropped.
  void close();

  // Connections that were dropped because they had not proved the key.
  std::size_t refused() const { return refused_; }
  std::size_t waiting() const { return pending_.size(); }

 private:
  struct Listener;
  struct PendingConnection;
  using PendingConnections = std::list<std::unique_ptr<PendingConnection>>;  // the oldest first

  TlsListener(const EventLoop& loop, TlsContext context, Limits limits, Events events);
  Result<void> listen_on(const std::string& address);
  void accept_some(const std::weak_ptr<const Listener>& listener);
  bool make_room();
  void admit(Fd socket);
  void go_on(PendingConnection& pending);
  bool begin_tls(PendingConnection& pending);
  void read_agent_hello(PendingConnection& pending);
  void welcome(PendingConnection& pending, const AgentHello& hello);
  void drop(const PendingConnection& pending);
  void drop_the_late();
  void watch_time();

  const EventLoop& loop_;
  TlsContext context_;
  Limits limits_;
  Events events_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::vector<LinkAddress> addresses_;
  PendingConnections pending_;
  std::size_t refused_ = 0;
  Timer late_;   // the oldest pending's time is over
  Timer pause_;  // no descriptor was left: listening goes on after it
};

}  // namespace hvdrun
