// Finds the program that a process was started for, if the process itself only waits for it: a
// shell, torchrun, numactl, a debugger. Reads /proc, command lines included, so it may wait as long
// as such a process hangs. For any thread; it cannot fail.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Returns the processes that do the work, at most four: `pid` itself, or those below it, if it is
// one that starts others. A program that waits for a child which it has started by itself, as with
// subprocess.run(), is the program.
std::vector<pid_t> programs_of(pid_t pid);

// Returns whether a command only starts another program and waits for it. `name`: that of the
// process, at most 15 bytes, or of its executable's file. `words`: its command line.
bool starts_others(const std::string& name, const std::vector<std::string>& words);

}  // namespace hvdrun
