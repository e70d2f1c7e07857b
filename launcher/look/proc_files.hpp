// What /proc says of a process and its threads. Plain functions for any thread; a process that has
// ended, or that may not be read, has no values. What takes the lock of the process's memory (maps,
// command line) is apart from what never does: the former may wait as long as the process hangs.
//
// Source: proc(5); Documentation/scheduler/sched-debug.rst of Linux.
#pragma once

#include "look/memory.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Returns the content of /proc/PID/NAME; "" if it cannot be read.
std::string read_proc(pid_t pid, const std::string& name);

// Returns where a link below /proc/PID points to; "" if it cannot be read.
std::string read_proc_link(pid_t pid, const std::string& name);

struct ThreadStat {
  std::string name;
  char state = '?';  // as in proc(5)
  pid_t parent = 0;
  bool is_kernels = false;  // a thread of the kernel, which is in no system call
  std::uint64_t major_faults = 0;
  double cpu_seconds = 0;
};
// Reads /proc/PID/stat, or that of a thread ("task/TID/stat"). Takes no lock.
std::optional<ThreadStat> read_stat(pid_t pid, const std::string& name = "stat");

// Returns the lines "Name: value" of a file as a map.
std::map<std::string, std::string> read_fields(pid_t pid, const std::string& name);

// Returns the ids of the threads that live, sorted.
std::vector<pid_t> threads_of(pid_t pid);

// Returns the children of all threads.
std::vector<pid_t> children_of(pid_t pid);

// What a thread has in /proc/PID/task/TID/syscall.
struct SystemCallState {
  bool known = false;    // the file could be read
  bool running = false;  // the thread is on a processor, or waits for one
  long number = -1;      // -1: it is in no system call
  std::uint64_t arguments[6] = {};
  Address stack = 0;  // 0: unknown
  Address at = 0;     // the instruction; 0: unknown
  // What the kernel's function says in which the thread waits.
  bool awaits_fuse = false;  // the server of a FUSE file system
  bool awaits_page = false;  // of a file or of swap
  bool hangs = false;        // in state D, or for FUSE's server
};
SystemCallState read_system_call(pid_t pid, pid_t tid);
// Returns the state for the content of such a file.
SystemCallState parse_system_call(const std::string& text);

// Returns for how long the thread has not been on a processor. Returns nullopt if the kernel does
// not say. A stop of the thread, also ours, begins it again.
std::optional<double> seconds_since_run(pid_t pid, pid_t tid);

struct Mapping {
  Address start = 0;
  Address end = 0;
  Address offset = 0;  // in the file
  bool writable = false;
  bool executable = false;
  std::string device;  // "08:01"
  std::uint64_t inode = 0;
  std::string path;
};
// Reads the process's mappings. Takes the lock of its memory.
std::vector<Mapping> read_maps(pid_t pid);
std::vector<Mapping> parse_maps(const std::string& text);

// Returns "4711 (python3)".
std::string pid_and_name(pid_t pid);

}  // namespace hvdrun
