// Tries once whether this host can connect to the address that MASTER_ADDR names. Programs that
// meet there would wait for ever if it cannot, without a word: a firewall, or a host that cannot
// reach its own public address.
//
// The agent owns it, on its loop's thread, and nothing waits for it. The port is HVD_PORT, at which
// only libhvd listens, so the connection disturbs no program. A host that refuses it is reached.
// It cannot fail: what cannot be tried is not reported.
#pragma once

#include "base/event_loop.hpp"
#include "common/fd.hpp"
#include "common/net/address.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <string>

namespace hvdrun {

inline constexpr std::chrono::milliseconds kProbePatience{5000};

class MasterProbe {
 public:
  // `on_unreachable`: called once, with a line that names host, name, address and reason.
  MasterProbe(const EventLoop& loop, std::function<void(const std::string&)> on_unreachable);

  // Begins to connect, if the job has several hosts. `known`: the addresses of names.
  void start(const LaunchMessage& job, const std::map<std::string, common::Address>& known,
             std::chrono::milliseconds patience = kProbePatience);

 private:
  void on_answer();
  void end(const std::string& why);

  const EventLoop& loop_;
  std::function<void(const std::string&)> on_unreachable_;
  std::string target_;  // "n1 (10.0.0.1)"
  common::Fd socket_;
  FdEvent answer_;
  Timer timer_;
};

}  // namespace hvdrun
