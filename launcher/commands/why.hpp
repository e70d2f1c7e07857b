// `hvdrun why`: why a job that runs on this machine hangs.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

Result<int> run_why(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
