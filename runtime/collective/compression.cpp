#include "collective/compression.hpp"

#include "collective/reduce.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

namespace libhvd {
namespace {

constexpr std::size_t kScaleBytes = sizeof(float);
constexpr float kMost = 127;
// Blocks of smaller numbers become zeros: the inverse of their scale would not be finite.
constexpr float kLeast = 1e-30f;
constexpr std::int32_t kMagnitude = 0x7fffffff;
constexpr std::int32_t kInfinity = 0x7f800000;

hvd_type type_of(Compression compression) {
  return compression == Compression::float16 ? HVD_FLOAT16 : HVD_BFLOAT16;
}

// Returns the nearest integer, of at most 127 in magnitude: the last bits of the sum with 1.5 *
// 2^23.
std::int8_t round_to_int8(float value) {
  constexpr float kShift = 12582912.0f;
  return static_cast<std::int8_t>(std::bit_cast<std::int32_t>(value + kShift) -
                                  std::bit_cast<std::int32_t>(kShift));
}

// Compresses at most kCompressedBlock floats. The loops are simple enough for vector instructions.
__attribute__((always_inline)) inline void compress_floats(const float* values, float* residuals,
                                                           std::size_t count, std::byte* to) {
  float wanted[kCompressedBlock];
  std::int8_t integers[kCompressedBlock];
  if (residuals != nullptr) {
    for (std::size_t i = 0; i < count; ++i) wanted[i] = values[i] + residuals[i];
  } else {
    std::copy_n(values, count, wanted);
  }
  std::int32_t bits = 0;  // the order of magnitudes is that of their bits
  for (std::size_t i = 0; i < count; ++i)
    bits = std::max(bits, std::bit_cast<std::int32_t>(wanted[i]) & kMagnitude);
  const auto largest = std::bit_cast<float>(bits);
  float scale = largest / kMost;
  float inverse = kMost / largest;
  if (bits >= kInfinity) {
    scale = std::numeric_limits<float>::quiet_NaN();
    inverse = 0;
    std::fill_n(wanted, count, 0.0f);
  } else if (largest < kLeast) {
    scale = 0;
    inverse = 0;
  }
  for (std::size_t i = 0; i < count; ++i) integers[i] = round_to_int8(wanted[i] * inverse);
  if (residuals != nullptr) {
    const float sent = bits >= kInfinity ? 0 : scale;
    for (std::size_t i = 0; i < count; ++i)
      residuals[i] = wanted[i] - static_cast<float>(integers[i]) * sent;
  }
  std::memcpy(to, &scale, kScaleBytes);
  std::memcpy(to + kScaleBytes, integers, count);
}

__attribute__((always_inline)) inline void decompress_floats(const std::byte* from,
                                                             std::size_t count, float* values) {
  float scale;
  std::int8_t integers[kCompressedBlock];
  std::memcpy(&scale, from, kScaleBytes);
  std::memcpy(integers, from + kScaleBytes, count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(integers[i]) * scale;
}

#if defined(__x86_64__)
#define HVD_WITH_AVX2 __attribute__((target("avx2")))
#else
#define HVD_WITH_AVX2
#endif

// The same for two instruction sets. They give the same bits.
void compress_plain(const float* values, float* residuals, std::size_t count, std::byte* to) {
  compress_floats(values, residuals, count, to);
}
HVD_WITH_AVX2 void compress_avx2(const float* values, float* residuals, std::size_t count,
                                 std::byte* to) {
  compress_floats(values, residuals, count, to);
}
void decompress_plain(const std::byte* from, std::size_t count, float* values) {
  decompress_floats(from, count, values);
}
HVD_WITH_AVX2 void decompress_avx2(const std::byte* from, std::size_t count, float* values) {
  decompress_floats(from, count, values);
}

bool has_avx2() {
  static const bool has = processor_has(InstructionSet::avx2);
  return has;
}

// Calls body(first element, elements, position in the compressed form) for each block.
template <class Body>
void for_each_block(std::size_t count, Body body) {
  std::size_t at = 0;
  for (std::size_t begin = 0; begin < count; begin += kCompressedBlock) {
    const std::size_t now = std::min(kCompressedBlock, count - begin);
    body(begin, now, at);
    at += kScaleBytes + now;
  }
}

// Finds the first value whose magnitude, as an integer, is `end` or more.
template <class Integer>
std::optional<std::size_t> find_first(const void* values, std::size_t count, Integer mask,
                                      Integer end) {
  const auto* const bytes = static_cast<const std::byte*>(values);
  constexpr std::size_t kAtATime = 1024;
  Integer some[kAtATime];
  for (std::size_t begin = 0; begin < count; begin += kAtATime) {
    const std::size_t now = std::min(kAtATime, count - begin);
    std::memcpy(some, bytes + begin * sizeof(Integer), now * sizeof(Integer));
    Integer largest = 0;
    for (std::size_t i = 0; i < now; ++i)
      largest = std::max(largest, static_cast<Integer>(some[i] & mask));
    if (largest < end) continue;
    const auto* const bad = std::find_if(
        some, some + now, [=](Integer bits) { return static_cast<Integer>(bits & mask) >= end; });
    return begin + static_cast<std::size_t>(bad - some);
  }
  return std::nullopt;
}

}  // namespace

const char* compression_name(Compression compression) {
  switch (compression) {
    case Compression::none:
      return "none";
    case Compression::float16:
      return "float16";
    case Compression::bfloat16:
      return "bfloat16";
    case Compression::int8:
      return "int8";
  }
  return "unknown";
}

std::size_t compressed_bytes(Compression compression, std::size_t count) {
  if (compression != Compression::int8) return count * 2;
  return count + (count + kCompressedBlock - 1) / kCompressedBlock * kScaleBytes;
}

void compress(Compression compression, const float* values, float* residuals, std::size_t count,
              std::byte* to) {
  if (compression != Compression::int8) {
    const void* const source = values;
    return reduce_end(HVD_SUM, type_of(compression), {&source, 1}, 1, to, count, {});
  }
  auto* const one = has_avx2() ? compress_avx2 : compress_plain;
  for_each_block(count, [&](std::size_t begin, std::size_t now, std::size_t at) {
    one(values + begin, residuals == nullptr ? nullptr : residuals + begin, now, to + at);
  });
}

void decompress(Compression compression, const std::byte* from, std::size_t count, float* values) {
  if (compression != Compression::int8) {
    const void* const source = from;
    return reduce_begin(HVD_SUM, type_of(compression), {&source, 1}, values, count, {});
  }
  auto* const one = has_avx2() ? decompress_avx2 : decompress_plain;
  for_each_block(count, [&](std::size_t begin, std::size_t now, std::size_t at) {
    one(from + at, now, values + begin);
  });
}

std::optional<std::size_t> find_not_finite(hvd_type type, const void* values, std::size_t count) {
  switch (type) {
    case HVD_FLOAT16:
      return find_first<std::int16_t>(values, count, 0x7fff, 0x7c00);
    case HVD_BFLOAT16:
      return find_first<std::int16_t>(values, count, 0x7fff, 0x7f80);
    case HVD_FLOAT32:
      return find_first<std::int32_t>(values, count, kMagnitude, kInfinity);
    default:
      return find_first<std::int64_t>(values, count, std::numeric_limits<std::int64_t>::max(),
                                      std::bit_cast<std::int64_t>(double{FLT_MAX}) + 1);
  }
}

}  // namespace libhvd
