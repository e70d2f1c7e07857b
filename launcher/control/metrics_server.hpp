// The HTTP server of --metrics :PORT. It answers GET /metrics at 127.0.0.1, so that only processes
// of this machine can ask, and one request for each connection.
//
// The job owns it, on its loop thread. It never blocks, and a client costs little: its request is
// short and comes soon, or the connection closes. A connection that sends nothing keeps no other
// one away: the kernel keeps it. Of those that have sent a part of a request, the oldest is closed
// for the next (common/net/acceptor.hpp). start() fails if the port is in use.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"
#include "common/net/acceptor.hpp"
#include "control/metrics_text.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace hvdrun {

class MetricsServer {
 public:
  // Calls `answer` with the job's numbers, soon, from the loop.
  using Ask = std::function<void(std::function<void(const JobNow&)> answer)>;

  static Result<std::unique_ptr<MetricsServer>> start(const EventLoop& loop, std::uint16_t port,
                                                      Ask ask);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // Returns the port that it listens at.
  std::uint16_t port() const { return port_; }

 private:
  class Request;
  struct Client;

  MetricsServer(const EventLoop& loop, std::unique_ptr<common::Acceptor> acceptor,
                std::uint16_t port, Ask ask);
  void accept();
  void add(Fd socket, const std::string& request);
  void take(std::uint64_t number, const std::string& request);
  void reply(std::uint64_t number, std::string text);
  void write(std::uint64_t number);

  const EventLoop& loop_;
  const std::unique_ptr<common::Acceptor> acceptor_;
  const std::uint16_t port_;
  const Ask ask_;
  std::map<std::uint64_t, Client> clients_;  // by number: the oldest first
  std::uint64_t next_number_ = 0;
  FdEvent acceptable_;
  Timer wake_;  // when the acceptor has something to do without an event
  std::shared_ptr<char> lives_ = std::make_shared<char>();  // for answers that come later
};

}  // namespace hvdrun
