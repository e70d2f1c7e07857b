// Finds what an agent reports of its host (HostFacts): what identifies the machine, its network
// interfaces, and which names of hosts it can resolve. Start it while the process has one thread.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "model/host_facts.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// The connection that carries the link of an agent on another host.
struct LinkRoute {
  std::string text;      // for people: "10.0.0.1:40312 > 10.0.0.2:22"; "" if not known
  std::string launcher;  // the address at the launcher's end, a number; "" if not known
  std::string host;      // the address at this end
};

// A name server may take any time, so a child process resolves the names meanwhile.
class HostFactsSearch {
 public:
  // Starts a child process if there is a name to resolve. Cannot fail: without a child process
  // the names pass for resolved.
  HostFactsSearch(LinkRoute route, const std::vector<std::string>& names);
  ~HostFactsSearch();
  HostFactsSearch(const HostFactsSearch&) = delete;
  HostFactsSearch& operator=(const HostFactsSearch&) = delete;

  // Returns the facts, and ends the child process. Waits for its answers, for seconds at most. A
  // name that is not resolved by then cannot be resolved.
  HostFacts finish();

 private:
  void end_child();

  const LinkRoute route_;
  std::vector<std::string> names_;
  Fd answers_;
  pid_t child_ = -1;
};

}  // namespace hvdrun
