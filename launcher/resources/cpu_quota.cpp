#include "resources/cpu_quota.hpp"

#include "common/file_content.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace hvdrun {
namespace {

using Path = std::filesystem::path;

// A hierarchy of cgroups, and this process's place in it.
struct Hierarchy {
  Path mount;
  Path group;  // relative to the mount
  bool second_version = false;
};

bool has_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');)
    if (name == "cpu") return true;
  return false;
}

// Reads lines such as "0::/a/b" of version 2, and "4:cpu,cpuacct:/a/b" of version 1.
std::vector<Hierarchy> read_hierarchies(const Path& list, const Path& mount) {
  std::vector<Hierarchy> found;
  std::istringstream groups(content_of(list));
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const Path group = Path(line.substr(second + 1)).relative_path();
    if (controllers.empty())
      found.push_back({mount, group, true});
    else if (has_cpu(controllers))
      found.push_back({mount / "cpu", group, false});
  }
  return found;
}

// Returns quota / period. "max", -1 and nonsense are no limit.
std::optional<double> divide(std::istream& quota, std::istream& period) {
  double allowed = 0;
  double of = 0;
  if (!(quota >> allowed) || !(period >> of) || allowed <= 0 || of <= 0) return std::nullopt;
  return allowed / of;
}

std::optional<double> quota_of(const Hierarchy& hierarchy, const Path& group) {
  const Path folder = hierarchy.mount / group;
  if (hierarchy.second_version) {
    std::istringstream both(content_of(folder / "cpu.max"));
    return divide(both, both);
  }
  std::istringstream quota(content_of(folder / "cpu.cfs_quota_us"));
  std::istringstream period(content_of(folder / "cpu.cfs_period_us"));
  return divide(quota, period);
}

}  // namespace

// A container without a cgroup namespace sees its group's path on the host, and its own group
// mounted as the root. So folders that do not exist are passed over.
std::optional<double> cpu_quota(const Path& list, const Path& mount) {
  std::optional<double> least;
  for (const Hierarchy& hierarchy : read_hierarchies(list, mount)) {
    for (Path group = hierarchy.group;; group = group.parent_path()) {
      if (const auto quota = quota_of(hierarchy, group))
        least = least ? std::min(*least, *quota) : *quota;
      if (group.empty()) break;
    }
  }
  return least;
}

}  // namespace hvdrun
