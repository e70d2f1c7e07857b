// What this process brings to a job: a plain value, made once by main().
#pragma once

#include "base/environment.hpp"
#include "base/resource_limits.hpp"

#include <csignal>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct JobContext {
  Environment environment;              // the caller's
  std::vector<ResourceLimit> limits;    // likewise
  std::string executable;               // the path of hvdrun, as it was when this process began
  sigset_t rank_signal_mask{};          // what ranks start with
  std::vector<pid_t> foreign_children;  // that this process already had: not the job's
};

}  // namespace hvdrun
