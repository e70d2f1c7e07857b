// The part of a look that reads /proc only: states, system calls, times, the control group. For any
// thread.
//
// Source: proc(5); Documentation/admin-guide/cgroup-v2.rst of Linux.
#pragma once

#include "look/descriptors.hpp"
#include "look/memory.hpp"
#include "look/proc_files.hpp"
#include "look/process_look.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <sys/types.h>

namespace hvdrun {

// The system calls that threads are in, by thread.
using ThreadCalls = std::map<pid_t, SystemCallState>;

// Reads what never takes the lock of the process's memory. Returns false if there is no such
// process.
bool read_facts(pid_t pid, ProcessLook& look, ThreadCalls& calls);

// Adds the command, the program, and what each thread waits for.
void read_details(pid_t pid, const Memory& memory, const ThreadCalls& calls, ProcessLook& look);

// Reads the calls anew, also of new threads.
void read_calls_again(pid_t pid, ThreadCalls& calls);

// Reads a thread again that ran at first and has hardly used a processor since: a signal or an
// earlier look had woken it for a moment. The threads must have their movement.
void read_woken_again(pid_t pid, const Memory& memory, ThreadCalls& calls, ProcessLook& look);

// Counters whose difference between two moments shows what moved.
struct Counters {
  double cpu_seconds = 0;
  double queued_seconds = 0;
  std::uint64_t switches = 0;
  std::uint64_t sleeps = 0;
};
struct GroupCounters {
  std::optional<double> throttled_seconds;
  std::uint64_t major_faults = 0;
};
std::map<pid_t, Counters> read_counters(pid_t pid);
GroupCounters read_group_counters(pid_t pid);

// Returns why the process may not be read, in words.
std::string why_refused(pid_t pid, const ProcessLook& look,
                        const std::string& yama = "/proc/sys/kernel/yama/ptrace_scope");

// Returns why Yama refuses it, for the text of its file; "" if it does not. `has_right`: to trace
// all processes (CAP_SYS_PTRACE).
std::string yama_words(const std::string& scope, bool has_right);

}  // namespace hvdrun
