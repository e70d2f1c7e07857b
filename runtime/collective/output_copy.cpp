#include "collective/output_copy.hpp"

#include "common/cache.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace libhvd {
namespace {

#ifdef __SSE2__
constexpr std::size_t kLine = 64;
#endif
constexpr std::size_t kUnknownCache = 4 << 20;
// Less stays in the second cache. Small calls do not ask for the last one's size.
constexpr std::size_t kLeastToBypass = 1 << 20;

// Returns a rank's share of the last cache, in bytes.
std::size_t share_of_cache(int ranks) {
  static const common::Cache cache = common::largest_cache();
  if (cache.bytes == 0) return kUnknownCache;
  return cache.bytes / static_cast<std::size_t>(std::min(cache.processors, ranks));
}

}  // namespace

OutputCopy::OutputCopy(std::size_t touched, int ranks)
    : bypasses_caches_(touched >= kLeastToBypass && touched >= share_of_cache(ranks)) {}

#ifdef __SSE2__
// Copies with stores that bypass the caches (MOVNTDQ). SFENCE orders them before later stores.
void OutputCopy::copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t head =
      std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; bytes - done >= kLine; done += kLine) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + done);
    auto* const target = reinterpret_cast<__m128i*>(to + done);
    const __m128i parts[] = {_mm_loadu_si128(source), _mm_loadu_si128(source + 1),
                             _mm_loadu_si128(source + 2), _mm_loadu_si128(source + 3)};
    for (int i = 0; i < 4; ++i) _mm_stream_si128(target + i, parts[i]);
  }
  std::memcpy(to + done, from + done, bytes - done);
  _mm_sfence();
}
#else
void OutputCopy::copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif

}  // namespace libhvd
