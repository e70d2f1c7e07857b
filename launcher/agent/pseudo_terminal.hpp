// A pseudo-terminal for a rank: the rank has it as its stdin, stdout, stderr and controlling
// terminal, and the agent holds the other end. Functions for the agent's thread. Error: no
// pseudo-terminal can be made.
#pragma once

#include "base/result.hpp"
#include "base/terminal.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <string_view>

#include <sys/types.h>

namespace hvdrun {

struct PseudoTerminal {
  Fd ours;   // non-blocking; reads what the rank writes, and takes the keys
  Fd ranks;  // open it in the rank only: while it is open, `ours` has no end of file (EIO)
};

Result<PseudoTerminal> open_pseudo_terminal(const TerminalSettings& settings);

// Returns the position in `keys` of one that is to suspend the job (Ctrl-Z), or npos. The kernel
// would drop it, because a rank leads a session of its own, without a shell that could continue it.
// In a shell with job control, and in a program that reads such keys itself, it is a key like any
// other.
std::size_t find_suspend_key(int ours, pid_t rank, std::string_view keys);

// Makes the program in the foreground draw its screen again.
void ask_to_redraw(int ours);

}  // namespace hvdrun
