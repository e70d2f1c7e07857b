// hvdrun templates: which templates of batch scripts there are, and what is in one.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words behind "templates": nothing, or show NAME. Prints; returns the exit code.
// Errors (kExitUsage): other words, no such template, a template that is wrong.
Result<int> run_templates(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
