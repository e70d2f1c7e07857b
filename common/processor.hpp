// What the processor has: its instructions on x86-64, and its largest cache. Instructions are read
// from CPUID, because some compilers lack the table of __builtin_cpu_supports(). Any thread.
#pragma once

#include <cstddef>

namespace common {

// Returns whether there are AVX2 and F16C, and the system keeps their registers.
bool has_avx2_and_f16c();

// Returns whether there are also AVX-512F, BW, DQ and VL.
bool has_avx512();

// Returns whether there is SSE 4.2, which has the instruction for CRC-32C.
bool has_sse42();

struct Cache {
  std::size_t bytes = 0;
  int processors = 1;  // that share it
};

// Returns the largest cache of the processor that this thread runs on, from
// /sys/devices/system/cpu. sysconf(3) returns a cache of the whole machine where this one is
// virtual. Returns 0 bytes if the system does not say.
Cache largest_cache();

}  // namespace common
