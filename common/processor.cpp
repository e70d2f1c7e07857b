#include "common/processor.hpp"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace common {

#if defined(__x86_64__)
namespace {

struct Features {
  unsigned ecx1 = 0;       // leaf 1
  unsigned ebx7 = 0;       // leaf 7
  std::uint32_t kept = 0;  // XCR0: the registers that the system keeps
};

Features read_features() {
  Features found;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return found;
  found.ecx1 = c;
  if ((c & bit_OSXSAVE) != 0) {
    std::uint32_t high = 0;
    __asm__("xgetbv" : "=a"(found.kept), "=d"(high) : "c"(0));
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) found.ebx7 = b;
  return found;
}

const Features& features() {
  static const Features found = read_features();
  return found;
}

bool has_all(unsigned word, unsigned bits) {
  return (word & bits) == bits;
}

constexpr std::uint32_t kYmm = 0x06;  // SSE, AVX
constexpr std::uint32_t kZmm = 0xe6;  // these and three parts of AVX-512

}  // namespace

bool has_avx2_and_f16c() {
  const Features& found = features();
  return has_all(found.kept, kYmm) && has_all(found.ecx1, bit_AVX | bit_F16C) &&
         has_all(found.ebx7, bit_AVX2);
}

bool has_avx512() {
  const Features& found = features();
  return has_avx2_and_f16c() && has_all(found.kept, kZmm) &&
         has_all(found.ebx7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL);
}

bool has_sse42() {
  return has_all(features().ecx1, bit_SSE4_2);
}
#else
bool has_avx2_and_f16c() {
  return false;
}
bool has_avx512() {
  return false;
}
bool has_sse42() {
  return false;
}
#endif

}  // namespace common
