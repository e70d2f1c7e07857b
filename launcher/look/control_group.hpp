// What holds up a process by its control groups, of version 1 and 2, also where both are mounted.
// For any thread; what cannot be read is left out.
//
// Source: cgroups(7); Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst of Linux.
#pragma once

#include <string>

namespace hvdrun {

class ControlGroup {
 public:
  // `membership`: the text of /proc/PID/cgroup. `root`: where the hierarchies are mounted.
  explicit ControlGroup(std::string membership, std::string root = "/sys/fs/cgroup");

  // Returns whether its processes are frozen (docker pause).
  bool is_frozen() const;

  // Returns for how many seconds processors were withheld since the groups were made, by its own
  // limit and by those of the groups above, such as a container's. Several processors count each.
  double throttled_seconds() const;

 private:
  struct Folder {
    std::string mount;
    std::string path;  // of the group, below it; "": there is none
  };
  Folder folder_of(const std::string& controller) const;

  std::string membership_;
  std::string root_;
};

}  // namespace hvdrun
