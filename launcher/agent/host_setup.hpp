// Room for descriptors: an agent needs several for each rank, the launcher for each host.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <string>

#include <sys/resource.h>
#include <sys/types.h>

namespace hvdrun {

// Raises this process's limit (RLIMIT_NOFILE) as far as `wanted` needs and the system allows, and
// lets the kernel make the table of descriptors that large now. Call it while there is one thread:
// a table that grows under several threads waits for all processors each time, some 10 ms (Linux,
// expand_fdtable). Returns the limit from before, which ranks are to have.
rlimit make_room_for_descriptors(std::size_t wanted);

// The same for its lifetime. What is forked meanwhile inherits it.
class RaisedDescriptorLimit {
 public:
  explicit RaisedDescriptorLimit(std::size_t wanted) : before_(make_room_for_descriptors(wanted)) {}
  ~RaisedDescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  RaisedDescriptorLimit(const RaisedDescriptorLimit&) = delete;
  RaisedDescriptorLimit& operator=(const RaisedDescriptorLimit&) = delete;

 private:
  rlimit before_;
};

// Error (kExitUsage): this process cannot open so many more, which `who` needs ("5000 ranks").
Result<void> check_descriptors(std::size_t more, const std::string& who);

// MASTER_PORT, kept for the program: bound with SO_REUSEADDR but not listening, so that nobody else
// is given it while a rank can still listen there (torch's TCPStore does).

struct MasterPort {
  Fd socket;  // keep it until the job ends
  int number = 0;
};

Result<MasterPort> hold_master_port();

// Whether processes speak to others over a network.
//
// Source: proc(5), /proc/PID/fd and /proc/PID/net.

// Whether the process has a TCP socket that listens or is connected. True as well where that cannot
// be seen: it belongs to somebody else, or there is no /proc/PID/net. False when it has ended.
bool has_tcp_socket(pid_t pid);

}  // namespace hvdrun
