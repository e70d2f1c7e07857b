// Listening sockets for agents: lets in those that have the job's key and that the launcher
// expects. What the other connections cost is limited by common/net/acceptor.hpp. TLS starts only
// if the first bytes begin a TLS handshake. A refused connection appears in no output; it is only
// counted.
//
// Belongs to the loop's thread.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/net/acceptor.hpp"
#include "common/net/connection.hpp"
#include "protocol/agent_hello.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class TlsListener {
 public:
  using Limits = Acceptor::Limits;
  struct Events {
    // Returns the number of the agent of that name, or nullopt if it is not expected. Then the
    // connection is dropped.
    std::function<std::optional<std::uint32_t>(const AgentHello&)> number_of;
    // Gets an agent that has the key, has sent its hello and was accepted. May close the listener,
    // and may destroy it.
    std::function<void(const AgentHello&, Connection)> on_agent;
  };

  // Listens on each address, on a port that the kernel picks. Leaves out addresses on which that is
  // not possible. Error: no address is left, or TLS cannot be set up.
  static Result<std::unique_ptr<TlsListener>> open(const EventLoop& loop, const TlsKey& key,
                                                   const std::vector<std::string>& addresses,
                                                   Limits limits, Events events);
  ~TlsListener();
  TlsListener(const TlsListener&) = delete;
  TlsListener& operator=(const TlsListener&) = delete;

  // Returns where it listens.
  const std::vector<LinkAddress>& addresses() const { return addresses_; }

  // Stops listening and drops the connections that wait.
  void close();

  // Returns how many connections were dropped because they had not shown the key.
  std::size_t refused() const { return acceptor_ ? acceptor_->refused() : refused_; }
  std::size_t waiting() const { return acceptor_ ? acceptor_->pending() : 0; }

 private:
  class AgentCandidate;

  TlsListener(const EventLoop& loop, TlsKey key, Events events);
  Result<Fd> listen_on(const std::string& address);
  void accept_agents();

  TlsKey key_;
  Events events_;
  std::vector<LinkAddress> addresses_;
  std::shared_ptr<Acceptor> acceptor_;  // null once closed
  std::size_t refused_ = 0;             // by then
  FdEvent ready_;                       // the acceptor can do something
  Timer wake_;
};

}  // namespace hvdrun
