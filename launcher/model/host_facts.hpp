// What an agent reports of its host that decides how the hosts of a job find each other. A plain
// value.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

struct HostFacts {
  // Identifies the system that a login as this user reaches. It is the same for two logins if their
  // processes see each other: the same kernel, namespaces and host name. So it differs between
  // containers of one machine. "" if it cannot be found out.
  std::string machine;
  // The two ends of the agent's link, as numbers; "" if they are not known or are of no use on
  // another host.
  std::string address;
  std::string launcher_address;
  std::vector<std::string> interfaces;  // that are up and have an address
  // Those of ConfigureMessage::names that the host cannot resolve.
  std::vector<std::string> unresolved;
};

}  // namespace hvdrun
