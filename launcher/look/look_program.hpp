// The program hvdrun-look: reads its command line, looks, prints. It needs nothing of hvdrun.
#pragma once

namespace hvdrun {

// Returns the exit code: 0 if something was found of at least one process, 1 if not, 2 for a wrong
// command line.
int look_program(int argc, char** argv);

}  // namespace hvdrun
