// What this process brings to a job. A plain value that main() makes once.
#pragma once

#include "base/environment.hpp"
#include "base/resource_limits.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct JobContext {
  Environment environment;            // the caller's
  std::vector<ResourceLimit> limits;  // the caller's, like the next two
  int umask = 022;
  int niceness = 0;
  std::string executable;  // the path of hvdrun when this process began
  std::vector<pid_t>
      foreign_children;  // children that this process already had; they are not the job's
};

}  // namespace hvdrun
