#include "job/unreached.hpp"

#include "slurm/host_list.hpp"

#include <algorithm>
#include <utility>

namespace hvdrun {

std::vector<std::string> unreached_lines(const std::vector<Unreached>& hosts) {
  std::vector<std::pair<std::string, std::vector<std::string>>> troubles;  // why, hosts
  for (const auto& each : hosts) {
    auto at = std::find_if(troubles.begin(), troubles.end(),
                           [&](const auto& trouble) { return trouble.first == each.why; });
    if (at == troubles.end()) at = troubles.insert(at, {each.why, {}});
    at->second.push_back(each.host);
  }
  std::vector<std::string> lines;
  lines.reserve(troubles.size());
  for (const auto& [why, names] : troubles) lines.push_back(fold_hosts(names) + ": " + why);
  return lines;
}

std::string unreached_reason(const std::vector<Unreached>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const auto& each : hosts) names.push_back(each.host);
  return "could not start on " + fold_hosts(names);
}

}  // namespace hvdrun
