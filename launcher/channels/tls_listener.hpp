// Listening sockets for agents, and the connections that have not authenticated yet.
//
// Any process that can reach the port can connect, so a connection costs little until it has proved
// the key. A silent one stays in the kernel (TCP_DEFER_ACCEPT). TLS starts only if the first bytes
// begin a TLS handshake. All of it has a time limit, and the number of connections is limited. For
// one more, the oldest connection is dropped whose first message has not shown the key, so that a
// process without the key cannot displace an agent. A refused connection gets no answer and appears
// in no output; it is only counted.
//
// Belongs to the loop's thread. SIGPIPE must be ignored or blocked.
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
    std::size_t waiting = 256;                 // unauthenticated connections at one time
    std::chrono::milliseconds timeout{10000};  // from the first bytes to the hello
  };
  struct Events {
    // Returns the number of the agent of that name, or nullopt if it is not expected. Then the
    // connection is dropped.
    std::function<std::optional<std::uint32_t>(const AgentHello&)> number_of;
    // Gets an agent that has the key, has sent its hello and was accepted. May close the listener,
    // and may destroy it.
    std::function<void(const AgentHello&, TlsStream)> on_agent;
  };

  // Listens on each address, on a port that the kernel picks. Leaves out addresses on which that is
  // not possible. Error: no address is left, or TLS cannot be set up.
  static Result<std::unique_ptr<TlsListener>> open(const EventLoop& loop, const LinkKey& key,
                                                   const std::vector<std::string>& addresses,
                                                   Limits limits, Events events);
  ~TlsListener();
  TlsListener(const TlsListener&) = delete;
  TlsListener& operator=(const TlsListener&) = delete;

  // Returns where it listens.
  const std::vector<LinkAddress>& addresses() const { return addresses_; }

  // Stops listening and drops the connections that wait.
  void close();

  // Returns how many connections were dropped because they had not proved the key.
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
  void advance(PendingConnection& pending);
  bool begin_tls(PendingConnection& pending);
  void read_agent_hello(PendingConnection& pending);
  void accept_agent(PendingConnection& pending, const AgentHello& hello);
  void drop(const PendingConnection& pending);
  void drop_expired();
  void start_expiry();

  const EventLoop& loop_;
  TlsContext context_;
  Limits limits_;
  Events events_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::vector<LinkAddress> addresses_;
  PendingConnections pending_;
  std::size_t refused_ = 0;
  Timer expiry_;  // of the oldest pending connection
  Timer pause_;   // before it listens again, after no descriptor was left
};

}  // namespace hvdrun
