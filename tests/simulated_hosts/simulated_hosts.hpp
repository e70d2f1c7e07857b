// Simulates the hosts of a job on this machine. Each host is a process with a link to this one, as
// an agent has to the launcher. The launcher's real PmixRouter forwards frames between them. For
// tests and benches.
//
// Used on the thread that made it. Throws when a host's process or link cannot be made.
#pragma once

#include "base/event_loop.hpp"
#include "job/pmix_router.hpp"
#include "protocol/link.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

class SimulatedHosts {
 public:
  // Runs in the process of a host. The process ends with the returned code.
  using Main = std::function<int(std::size_t host, LinkEnd link)>;

  struct Events {
    // Called with a frame that is not for the exchange.
    std::function<void(std::size_t host, const Frame& frame)> on_frame;
    // Called with a frame for the exchange, before the exchange takes it.
    std::function<void(std::size_t host, const Frame& frame)> on_exchange;
    // Called when the host's process has ended.
    std::function<void(std::size_t host)> on_gone;
  };

  // Starts the processes. The calling process must have only one thread. It ignores SIGPIPE from
  // now on.
  SimulatedHosts(std::size_t count, const Main& main, Events events);
  ~SimulatedHosts();  // kills the hosts that still run
  SimulatedHosts(const SimulatedHosts&) = delete;
  SimulatedHosts& operator=(const SimulatedHosts&) = delete;

  void run() { loop_.run(); }  // until stop(), or until all hosts are gone
  void stop() { loop_.stop(); }
  void send_all(FrameType type, std::string_view payload = {});
  void kill(std::size_t host);

  // Waits for the end of a host's process, and returns its wait status.
  int status_of(std::size_t host);

  // The exchange's error for the first frame that it refused.
  const std::optional<Error>& error() const { return error_; }

 private:
  struct Host {
    pid_t pid = 0;
    bool gone = false;
    std::optional<int> status;
    std::unique_ptr<Link> link;
  };

  void take(std::size_t host, const Frame& frame);
  void lose(std::size_t host);

  Events events_;
  EventLoop loop_;
  std::vector<Host> hosts_;
  PmixRouter router_;
  std::optional<Error> error_;
};

}  // namespace hvdrun
