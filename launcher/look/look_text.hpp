// A look at a process as text for people. Threads with equal stacks that wait alike are shown once.
// A pure function, for any thread.
#pragma once

#include "look/process_look.hpp"

#include <string>

namespace hvdrun {

// `all`: also the interpreter's own functions.
std::string look_text(const ProcessLook& look, bool all);

}  // namespace hvdrun
