// Room for descriptors: an agent needs several for each rank, the launcher for each host.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <string>

#include <sys/resource.h>

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

}  // namespace hvdrun
