// The instructions that this processor and this system have, on x86-64. They are read from CPUID,
// because some compilers lack the table of __builtin_cpu_supports(). Any thread.
#pragma once

namespace common {

// Returns whether there are AVX2 and F16C, and the system keeps their registers.
bool has_avx2_and_f16c();

// Returns whether there are also AVX-512F, BW, DQ and VL.
bool has_avx512();

// Returns whether there is SSE 4.2, which has the instruction for CRC-32C.
bool has_sse42();

}  // namespace common
