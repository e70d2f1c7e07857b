// hvdrun templates: lists the templates of batch scripts, or shows one.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// `args` are the words after "templates": none, or show NAME. Prints, and returns the exit code.
// Errors (kExitUsage): other words, no template of that name, a faulty template.
Result<int> run_templates(const std::vector<std::string>& args, const Environment& environment);

}  // namespace hvdrun
