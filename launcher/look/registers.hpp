// The registers of a stopped thread, for the processors whose stacks can be unwound. On others
// kCanUnwind is false, and nothing is read. Any thread that traces the other one.
//
// Source: System V ABI for AMD64 and for Arm 64, numbers of registers in DWARF; ptrace(2).
#pragma once

#include "look/memory.hpp"

#include <optional>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

#if defined(__x86_64__) || defined(__aarch64__)
inline constexpr bool kCanUnwind = true;
#else
inline constexpr bool kCanUnwind = false;
#endif

struct Registers {
  std::vector<Address> values;  // by their numbers in DWARF; without all if only two are known
  Address at = 0;               // the instruction
  Address stack = 0;
  Address thread = 0;    // what the processor has for the thread: glibc's control block
  bool complete = true;  // false: only `at` and `stack` are known
};

// Reads the registers of a thread that is stopped.
std::optional<Registers> read_registers(pid_t tid);

// Returns what is known without a stop of a thread that waits in the kernel.
Registers registers_of_waiting(Address at, Address stack);

// Makes a system call that the stop has ended with EINTR begin again, as the kernel does by itself
// with most. A handler that runs first still ends it. Returns false if the processor does not let
// us: then such a call must not be stopped.
bool can_resume_system_calls();
void resume_system_call(pid_t tid);

}  // namespace hvdrun
