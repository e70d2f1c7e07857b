// What a thread waits for in a system call, in words. Reads the arguments, the descriptors that
// they name, and the memory that they point to. For any thread.
//
// Source: the manual page of each system call, in section 2.
#pragma once

#include "look/descriptors.hpp"
#include "look/memory.hpp"
#include "look/proc_files.hpp"

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Returns the words for a call: "fd 5: pipe written by 4711 (sh)", "the child 4711 (sleep)",
// "a mutex that thread 4712 holds", "1000 s". Returns "" if there is nothing to add to its name.
std::string describe_wait(pid_t pid, const SystemCallState& call, const std::vector<pid_t>& threads,
                          const Memory& memory, Descriptors& descriptors);

}  // namespace hvdrun
