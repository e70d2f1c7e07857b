// The caches of the processor, as the system describes them. Any thread.
#pragma once

#include <cstddef>

namespace common {

struct Cache {
  std::size_t bytes = 0;
  int processors = 1;  // that share it
};

// Returns the largest cache of the processor that this thread runs on, from
// /sys/devices/system/cpu. sysconf(3) returns a cache of the whole machine where this one is
// virtual. Returns 0 bytes if the system does not say.
Cache largest_cache();

}  // namespace common
