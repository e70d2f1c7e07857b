// The instructions that this processor and this system have, on x86-64. Read from CPUID and not
// with
// __builtin_cpu_supports(), whose table some compilers lack. Any thread.
#pragma once

namespace common {

// Returns whether there are AVX2 and F16C, and the system keeps their registers.
bool has_avx2_and_f16c();

// Returns whether there are also AVX-512F, BW, DQ and VL.
bool has_avx512();

// Returns whether there is SSE 4.2, which has the instruction for CRC-32C.
bool has_sse42();

}  // namespace common
