// What to call this hvdrun by in a script that runs elsewhere.
#pragma once

#include "base/environment.hpp"

#include <string>

namespace hvdrun {

// "hvdrun" where the caller's PATH leads to this very file in a folder that every PATH has, else
// the file's path: what a module has put into PATH, `module purge` takes out again.
std::string hvdrun_name(const Environment& environment);

}  // namespace hvdrun
