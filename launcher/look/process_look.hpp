// What a look at a process found: plain values, which one part fills, one prints as JSON, and one
// as text. A text that is empty, and a value that is missing, are unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct LookFrame {
  std::string function;
  std::string file;          // of the source
  int line = 0;              // 0: unknown
  std::string library;       // of a native frame
  bool is_python = false;    // a function in Python
  bool interpreter = false;  // Python's own C code
  bool operator==(const LookFrame&) const = default;
};

// What changed between two looks.
struct Movement {
  double seconds = 0;  // between them
  double cpu_seconds = 0;
  std::uint64_t switches = 0;  // how often it left a processor
  bool frame_moved = false;    // the stacks differ
  std::uint64_t sleeps = 0;    // how often it left a processor to wait
  double queued_seconds = 0;   // it could run, and had no processor
};

struct ThreadLook {
  pid_t tid = 0;
  std::string name;
  char state = '?';                       // as in proc(5)
  std::string wait_channel;               // the kernel's function that it waits in
  std::string system_call;                // "futex"
  std::string waits_for;                  // "fd 5: pipe written by 4711 (sh)"
  std::optional<double> waiting_seconds;  // how long it has not been on a processor
  double cpu_seconds = 0;
  std::uint64_t switches = 0;
  bool holds_gil = false;
  std::vector<LookFrame> stack;  // the innermost first
  bool merged = true;            // false: Python's frames are together, not where they belong
  std::string problem;           // why frames are missing
  std::optional<Movement> movement;
};

struct ChildLook {
  pid_t pid = 0;
  std::string name;
  char state = '?';
};

struct ProcessLook {
  pid_t pid = 0;
  pid_t asked = 0;  // the process that was asked for: this one, or one that has started it
  pid_t parent = 0;
  std::string name;
  std::string command;
  std::string program;  // the path of its executable
  char state = '?';
  std::optional<unsigned> user;
  std::string python;  // its version
  pid_t traced_by = 0;
  std::string tracer;  // its name
  std::uint64_t swapped_kib = 0;
  std::optional<double> swapped_in_per_second;  // major page faults between two looks
  bool frozen = false;                          // by its cgroup
  std::optional<double> throttled;              // by its cgroup: part of the time between two looks
  double pause_seconds = 0;                     // how long it was stopped, at most in one look
  std::vector<ChildLook> children;
  std::size_t thread_count = 0;
  std::vector<ThreadLook> threads;
  std::vector<std::string> problems;
  std::string unfinished;  // what the look was doing when it was cut short
};

// Returns whether a file of source belongs to the system or the compiler: a header of the C or C++
// library.
bool is_system_header(std::string_view file);

// Returns "sleeping", "running", "waiting in the kernel, cannot be interrupted".
std::string state_words(char state);

}  // namespace hvdrun
