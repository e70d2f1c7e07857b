// The limit on open descriptors (RLIMIT_NOFILE) of this process: an agent needs several for each
// rank, the launcher several for each host. Plain functions without state; raise the limit while
// the process has one thread.
#pragma once

#include "base/result.hpp"

#include <cstddef>
#include <string>

#include <sys/resource.h>

namespace hvdrun {

// Descriptors of the agent itself, and of each rank: both ends of its pipes, its eventfd, PMIx's
// connection.
inline constexpr std::size_t kOwnDescriptors = 64;
inline constexpr std::size_t kDescriptorsPerRank = 8;

// Raises the limit to `wanted`, or as far as the system allows, and lets the kernel enlarge the
// table of descriptors now. Returns the limit from before, which ranks are to have. Cannot fail.
//
// Call it while there is one thread: a table that grows under several threads waits for all
// processors each time, about 10 ms (Linux, expand_fdtable).
rlimit raise_descriptor_limit(std::size_t wanted);

// Raises the limit for its own lifetime. Processes that are forked meanwhile inherit it.
class RaisedDescriptorLimit {
 public:
  explicit RaisedDescriptorLimit(std::size_t wanted) : before_(raise_descriptor_limit(wanted)) {}
  ~RaisedDescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  RaisedDescriptorLimit(const RaisedDescriptorLimit&) = delete;
  RaisedDescriptorLimit& operator=(const RaisedDescriptorLimit&) = delete;

 private:
  rlimit before_;
};

// Returns how many descriptors this process can open beside `more`; 0 if there are not so many.
std::size_t free_descriptors(std::size_t more);

// Checks that this process can open `more` descriptors. `needed_for` is in the message ("5000
// ranks"). Error: the limit is too low (kExitUsage; the message says how to raise it).
Result<void> check_descriptors(std::size_t more, const std::string& needed_for);

// Raises the limit for an agent that starts so many ranks. Error: as of check_descriptors().
Result<void> prepare_descriptors(std::size_t ranks);

}  // namespace hvdrun
