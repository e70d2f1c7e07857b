// Several hosts of a job on this machine: a process for each, which is linked to this one as agents
// are to the launcher, and the launcher's real PmixRouter between them. For tests and benches.
//
// On the thread that made it. Throws where a test cannot go on.
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
  // What the process of a host does; when it returns, the process ends with that code.
  using Main = std::function<int(std::size_t host, LinkEnd link)>;

  struct Events {
    // Frames that are not the exchange's own.
    std::function<void(std::size_t host, const Frame& frame)> on_frame;
    // Sees the exchange's frames before it does.
    std::function<void(std::size_t host, const Frame& frame)> on_exchange;
    // The host's process is gone.
    std::function<void(std::size_t host)> on_gone;
  };

  // Starts the processes. The calling process must have one thread; it ignores SIGPIPE from now on.
  SimulatedHosts(std::size_t count, const Main& main, Events events);
  ~SimulatedHosts();  // kills what still runs
  SimulatedHosts(const SimulatedHosts&) = delete;
  SimulatedHosts& operator=(const SimulatedHosts&) = delete;

  void run() { loop_.run(); }  // until stop(), or until all hosts are gone
  void stop() { loop_.stop(); }
  void send_all(FrameType type, std::string_view payload = {});
  void kill(std::size_t host);

  // Wait status of a host's process that is gone.
  int status_of(std::size_t host);

  // What the exchange said of the first frame that it refused.
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
