// Room for descriptors: an agent needs several for each rank, the launcher for each host.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/types.h>

namespace hvdrun {

// Raises this process's limit (RLIMIT_NOFILE) as far as `wanted` needs and the system allows, and
// lets the kernel make the table of descriptors that large now. Call it while there is one thread:
// a table that grows under several threads waits for all processors each time, some 10 ms (Linux,
// expand_fdtable). Returns the limit from before, which ranks are to have.
rlimit raise_descriptor_limit(std::size_t wanted);

// The same for its lifetime. What is forked meanwhile inherits it.
class RaisedDescriptorLimit {
 public:
  explicit RaisedDescriptorLimit(std::size_t wanted) : before_(raise_descriptor_limit(wanted)) {}
  ~RaisedDescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  RaisedDescriptorLimit(const RaisedDescriptorLimit&) = delete;
  RaisedDescriptorLimit& operator=(const RaisedDescriptorLimit&) = delete;

 private:
  rlimit before_;
};

// Error (kExitUsage): this process cannot open so many more, which `who` needs ("5000 ranks").
Result<void> check_descriptors(std::size_t more, const std::string& who);

// A TCP port kept for a rank: bound with SO_REUSEADDR but not listening, so that nobody else is
// given it while a rank can still listen there (torch's TCPStore and libhvd's rendezvous do).
struct HeldPort {
  Fd socket;  // keep it until the job ends
  int number = 0;
};

// So many ports after MASTER_PORT are left to the program, which may take them without asking:
// Megatron-LM's in-process restart takes the next two. libhvd's rendezvous may fall back to as many
// ports after its own.
inline constexpr int kPortsLeftToProgram = 64;

// Holds `count` ports. All but the first keep away from MASTER_PORT, so that neither they nor the
// ports after them are among those that are left to the program. MASTER_PORT is `master_port`, or
// when that is 0 the first of the ports.
Result<std::vector<HeldPort>> hold_ports(int count, int master_port);

// Whether processes speak to others over a network.
//
// Source: proc(5), /proc/PID/fd and /proc/PID/net.

// Whether the process has a TCP socket that listens or is connected. True as well where that cannot
// be seen: it belongs to somebody else, or there is no /proc/PID/net. False when it has ended.
bool has_tcp_socket(pid_t pid);

// The TCP connections of this host, open or closed within the last minute, with one of these ports
// at either end: their two addresses, as /proc/net/tcp writes them.
std::set<std::string> connections_at(const std::set<int>& ports);

// Whether the process has loaded TensorFlow's library (proc(5), /proc/PID/maps).
bool uses_tensorflow(pid_t pid);

}  // namespace hvdrun
