// Finds what an agent reports of its host (HostFacts): what identifies the machine, its network
// interfaces, and which names of hosts it can resolve. Any thread.
#pragma once

#include "common/net/lookup.hpp"
#include "model/host_facts.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// The connection that carries the link of an agent on another host.
struct LinkRoute {
  std::string text;      // for people: "10.0.0.1:40312 > 10.0.0.2:22"; "" if not known
  std::string launcher;  // the address at the launcher's end, a number; "" if not known
  std::string host;      // the address at this end
};

// How long an agent waits for the answer about a name before ranks start without it. Name servers
// of a cluster answer in milliseconds. One that does not answer may keep a program waiting for
// tens of seconds.
inline constexpr std::chrono::milliseconds kAnswerPatience{300};

class HostFactsSearch {
 public:
  // Starts to look up the names.
  HostFactsSearch(LinkRoute route, const std::vector<std::string>& names);

  // Returns the facts. Waits for answers, kAnswerPatience for each, and three seconds for all. A
  // name without an answer by then is reported as unresolved: the launcher has the address by
  // which it has reached that host.
  HostFacts finish();

  // Returns the first address of each name that has one. Call it after finish().
  const std::map<std::string, common::Address>& addresses() const { return addresses_; }

 private:
  const LinkRoute route_;
  std::vector<std::string> names_;
  std::optional<common::Lookup> lookup_;
  std::map<std::string, common::Address> addresses_;
};

}  // namespace hvdrun
