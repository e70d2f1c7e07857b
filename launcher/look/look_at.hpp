// Looks at one process from outside. Blocks, and may hang or be killed with the process that it
// reads, so it runs in a process of its own (look_worker.hpp). It publishes what it knows so far,
// first what can always be read, and last what may take long.
#pragma once

#include "look/process_look.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <sys/types.h>

namespace hvdrun {

struct LookOptions {
  pid_t asked = 0;   // as in ProcessLook; 0: the process itself
  bool stop = true;  // false: the process is not stopped, and threads that run have no stack
  bool stopped_too_long = false;  // a look before this one did, so this one does not stop it
  bool twice = false;             // looks twice, and says what moved
  std::chrono::milliseconds interval{500};           // between the two
  std::size_t depth = 128;                           // frames of a stack, of each language
  std::atomic<std::uint64_t>* stop_began = nullptr;  // as in Stop
  std::function<void(const ProcessLook&)> publish;
};

// Publishes nothing if there is no such process.
void look_at(pid_t pid, const LookOptions& options);

}  // namespace hvdrun
