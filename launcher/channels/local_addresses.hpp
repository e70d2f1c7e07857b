// Finds those of this host's addresses that the other hosts of a job can reach.
//
// The rules, in this order:
// 1. All addresses of the interfaces that --network-interface names, in the order of the names.
// 2. The addresses from which this host would send to the job's hosts. Their names are resolved,
// and
//    the kernel's routes give the address of our end. No packet is sent. A few hosts are probed for
//    all of them. Loopback is used only if nothing else was found: this host's own names lead to
//    it.
// 3. Every address of an interface that is up, loopback last.
// IPv6 addresses that are valid on one link only (fe80::) are never used, because they need an
// interface's name, which only this host knows.
//
// Plain functions, and a probe on the loop's thread.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct NamedAddress {
  std::string interface;  // "eth0"
  std::string address;    // numeric
};

// Returns the addresses of this host's interfaces that are up, in the kernel's order.
Result<std::vector<NamedAddress>> named_addresses();

// Applies rule 1. `names` are the user's: "ib0,eth0". Error: an interface does not exist or has no
// address (kExitUsage; the message lists those that have one).
Result<std::vector<std::string>> addresses_of_interfaces(const std::vector<NamedAddress>& all,
                                                         std::string_view names);

// Applies rule 3.
std::vector<std::string> all_addresses(const std::vector<NamedAddress>& all);

bool is_loopback(std::string_view address);

// Returns each address once, without those of loopback unless there are no others.
std::vector<std::string> without_loopback(const std::vector<std::string>& addresses);

// Finds the addresses of rule 2. A name server may take any time, so a child process resolves the
// names. Addresses that it has not found in time are left out.
class RouteProbe {
 public:
  // Called once, from the loop; with an empty list if nothing was found. It may destroy the probe.
  using OnFound = std::function<void(const std::vector<std::string>& addresses)>;

  // Starts the child process. Call it while this process has one thread. Error: no process can be
  // made.
  static Result<std::unique_ptr<RouteProbe>> start(const EventLoop& loop,
                                                   const std::vector<std::string>& hosts,
                                                   std::chrono::milliseconds timeout,
                                                   OnFound on_found);
  ~RouteProbe();
  RouteProbe(const RouteProbe&) = delete;
  RouteProbe& operator=(const RouteProbe&) = delete;

 private:
  RouteProbe(const EventLoop& loop, Fd answers, pid_t child, OnFound on_found);
  void on_readable();
  void finish();

  Fd answers_;
  pid_t child_;
  std::string text_;
  OnFound on_found_;
  FdEvent readable_;
  Timer timer_;
};

}  // namespace hvdrun
