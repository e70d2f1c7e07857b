// Looks at several processes, each from a process of its own, which is killed if it takes too long
// or keeps its process stopped for too long. What it had published by then is kept. Belongs to one
// thread; the caller must have no other thread, because it forks.
#pragma once

#include "look/process_look.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct LookRequest {
  std::vector<pid_t> pids;
  bool programs = false;  // looks at the programs that the processes have started; see programs_of
  bool stop = true;
  bool twice = false;
  std::chrono::milliseconds interval{500};
  std::chrono::milliseconds limit{5000};  // for each process; with `programs` for all together
  std::size_t depth = 128;
  std::function<std::string(const ProcessLook&)> print;  // a look as text or JSON
};

// Calls `show` once for each process, in the order of `pids`, with what was printed; "" if there is
// no such process.
void run_looks(const LookRequest& request,
               const std::function<void(pid_t pid, const std::string& text)>& show);

}  // namespace hvdrun
