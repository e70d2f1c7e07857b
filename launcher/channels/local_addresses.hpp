// Which of this host's addresses the other hosts of a job can reach.
//
// The rule, in this order:
// 1. The interfaces that --network-interface names: all their addresses, in the order of the names.
// 2. The addresses from which this host would speak to the job's hosts: their names are resolved,
//    and the kernel's routes give the address of our end. No packet is sent. A few hosts stand for
//    all of them. Loopback only when nothing else was found: names of this very host lead there.
// 3. Every address of an interface that is up, loopback last.
// IPv6 addresses that are valid on one link only (fe80::) are never used: they need a name that
// only this host knows.
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
  std::string address;    // in numbers
};

// Of this host, interfaces that are up; in the kernel's order.
Result<std::vector<NamedAddress>> named_addresses();

// Rule 1; `names` as the user wrote them: "ib0,eth0". Error: no such interface, or it has no
// address; says which there are.
Result<std::vector<std::string>> addresses_of_interfaces(const std::vector<NamedAddress>& all,
                                                         std::string_view names);

// Rule 3.
std::vector<std::string> all_addresses(const std::vector<NamedAddress>& all);

bool is_loopback(std::string_view address);

// Loopback addresses dropped, unless there are no others; each address once.
std::vector<std::string> without_loopback(const std::vector<std::string>& addresses);

// Finds the addresses of rule 2. Resolving a name can take as long as a name server likes, so a
// child process does it; what it has not found in time is done without.
class RouteProbe {
 public:
  // Called once, from the loop; with nothing when nothing was found. The probe may be destroyed in
  // it.
  using OnFound = std::function<void(const std::vector<std::string>& addresses)>;

  // Must be called while this process has one thread.
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

// The TCP connection below an agent's link: its two ends, for people (the launcher's first, the
// agent's second), and whether the other host answers.

// `connection` is SSH_CONNECTION of ssh(1), or null: "10.0.0.1:40312 > 10.0.0.2:22". "" when it is
// not what it should be.
std::string route_of_ssh(const char* connection);

// Of a connected TCP socket, seen from the agent, which has connected: "10.0.0.1:4711 <
// [fd00::2]:9".
std::string route_of_socket(int socket);

// Whether the peer's kernel has acknowledged something on this TCP socket within `time` (TCP_INFO
// of tcp(7)). The caller sends something more often than that. True where the kernel cannot tell.
bool has_acknowledged(int socket, std::chrono::milliseconds time);

// Whether this kernel waits for an acknowledgment on a TCP connection of another process, and has
// asked for it twice in vain. False where that cannot be seen.
bool waits_in_vain(pid_t process);

// The same of one line of /proc/net/tcp (proc(5)), if it is that of one of these sockets.
bool waits_in_vain(std::string_view line, const std::vector<std::string>& inodes);

}  // namespace hvdrun
