// How long threads have waited, over several looks. A look wakes each thread that it stops for a
// moment, and the kernel then begins its wait again. If a thread waits where it waited in the look
// before, and has hardly run meanwhile, it is the same wait.
//
// A value of one thread; it cannot fail.
#pragma once

#include "hang/hang_facts.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

class WaitMemory {
 public:
  // Sets how long each thread has waited, and remembers it. `seconds`: of a clock that never goes
  // back, when the look was made.
  void take(std::vector<RankFacts>& ranks, double seconds);

 private:
  struct Wait {
    double began = 0;  // on that clock
    std::string system_call;
    std::vector<LookFrame> stack;
    std::uint64_t switches = 0;
    double cpu_seconds = 0;
  };
  std::map<std::pair<int, pid_t>, Wait> waits_;  // by rank and thread
};

}  // namespace hvdrun
