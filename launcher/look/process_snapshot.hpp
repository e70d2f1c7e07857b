// What is read of a process while it is stopped: its threads' registers and stacks, and Python's
// frames. Little more than copying happens then; names are looked up afterwards. The threads are
// stopped by a thread of ours that ends at once, so that the kernel lets go of all of them, also of
// one that hangs and could not stop. Blocks.
#pragma once

#include "look/memory.hpp"
#include "look/proc_files.hpp"
#include "look/python_stack.hpp"
#include "look/registers.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct ThreadSnapshot {
  std::optional<Registers> registers;
  Address stack_start = 0;
  std::vector<std::uint8_t> stack;  // from stack_start on
  bool ran = false;                 // it was not stopped, and ran while it was read
  bool hangs = false;               // it did not stop when it was asked to
};

struct Snapshot {
  std::map<pid_t, ThreadSnapshot> threads;
  std::vector<PythonThread> python;
  double pause = 0;  // how long the process was stopped, in seconds
  int refused = 0;   // the errno value if it could not be stopped
  bool cut = false;  // time ran out before all was read
};

struct SnapshotOptions {
  bool stop = true;
  std::size_t depth = 128;  // Python's frames
  std::atomic<std::uint64_t>* began = nullptr;
};

Snapshot take_snapshot(pid_t pid, const Memory& memory, const std::vector<Mapping>& mappings,
                       const std::map<pid_t, SystemCallState>& calls, const PythonProcess* python,
                       const SnapshotOptions& options);

}  // namespace hvdrun
