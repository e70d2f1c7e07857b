// Which processes of a rank a signal is for: those that handle it, and of these the topmost,
// because a handler is inherited by what a process forks (the workers of a DataLoader). A process
// above them may be a shell or another wrapper, which the signal would end.
//
// Functions for any thread. Those that look read /proc: a process that has ended uses no signal.
#pragma once

#include "agent/process_tree.hpp"

#include <functional>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

enum class SignalUse {
  none,    // the signal ends the process, or is ignored
  waits,   // its first thread blocks the signal: it may wait for it (sigwait(3)), or be a wrapper
  handles  // it has a handler
};

// What a look at a process shows.
struct SignalLook {
  SignalUse use = SignalUse::none;
  // It is a shell, or has one thread, which waits for a child. A shell's trap runs only when the
  // child in the foreground has ended.
  bool waits_for_child = false;
  // It ignores SIGQUIT, as what a shell starts in the background does (POSIX, Asynchronous Lists).
  // No rank begins with an ignored signal.
  bool ignores_quit = false;
};

// Returns what a process does with the signal.
SignalUse use_of(pid_t pid, int signal);
// Returns the same, and whether the process waits for a child.
SignalLook look_at(pid_t pid, int signal);

struct SignalTargets {
  std::vector<ProcessInfo> now;  // get the signal at once; empty: no process of the tree uses it
  // Those of them for whose end the rest of the tree may wait. Empty: nothing is to be waited for.
  std::vector<ProcessInfo> awaited;
};

// Returns the targets of a signal among `root` and those of `processes` below it: the topmost that
// handle it, or else those that block it. A target that waits for a child does not keep the signal
// from those below it: they are seen as trees of their own. If none of these trees has a target,
// they get the signal whole. Those in the background are left to the target: the trap of a shell
// that waits for them runs at once, and may send them the signal.
SignalTargets targets_in(pid_t root, const std::vector<ProcessInfo>& processes,
                         const std::function<SignalLook(pid_t)>& look);

}  // namespace hvdrun
