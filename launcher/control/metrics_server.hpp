// The HTTP server of --metrics :PORT. It answers GET /metrics at 127.0.0.1, so that only processes
// of this machine can ask, and one request for each connection.
//
// The job owns it, on its loop thread. It never blocks, and a client costs little: its request is
// short and comes soon, or the connection closes. start() fails if the port is in use.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"
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
  struct Client;

  MetricsServer(const EventLoop& loop, Fd listener, std::uint16_t port, Ask ask);
  void accept();
  void read(std::uint64_t number);
  void take(std::uint64_t number);
  void reply(std::uint64_t number, std::string text);
  void write(std::uint64_t number);

  const EventLoop& loop_;
  const Fd listener_;
  const std::uint16_t port_;
  const Ask ask_;
  std::map<std::uint64_t, Client> clients_;  // by number
  std::uint64_t next_number_ = 0;
  FdEvent acceptable_;
  Timer accept_again_;  // after a shortage of descriptors or memory
  std::shared_ptr<char> lives_ = std::make_shared<char>();  // for answers that come later
};

}  // namespace hvdrun
