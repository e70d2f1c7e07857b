// A look at a process as JSON, on one line. A pure function, for any thread. The fields are in
// docs/debug/stacks.md.
#pragma once

#include "look/process_look.hpp"

#include <string>

namespace hvdrun {

std::string look_json(const ProcessLook& look);

}  // namespace hvdrun
