// The two 16-bit floating point types, as storage with conversions to and from float.
//
// Convert to float for arithmetic. The conversion back rounds once, to the nearest value, ties to
// even (IEEE 754-2019, 4.3.1).
#ifndef HVD_FLOAT16_HPP_
#define HVD_FLOAT16_HPP_

#include <bit>
#include <cstdint>

namespace hvd {

// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  constexpr explicit float16(float value) : bits(round(value)) {}

  constexpr explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
      const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
      return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint32_t wide = exponent == 0x1fu ? 0xffu : exponent + 112;
    return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
  }

 private:
  static constexpr std::uint16_t round(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((wide >> 16) & 0x8000u);
    const std::uint32_t magnitude = wide & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {  // NaN: becomes quiet, keeps the upper payload
      return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // >= 65520
    if (magnitude < 0x33000000u) return sign;                                         // < 2^-25
    if (magnitude >= 0x38800000u) {                                                   // normal
      const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
      return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
    }
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t shift = 126 - (magnitude >> 23);
    const std::uint32_t kept = significand >> shift;
    const std::uint32_t rest = significand & ((1u << shift) - 1);
    const std::uint32_t half = 1u << (shift - 1);
    const bool up = rest > half || (rest == half && (kept & 1u) != 0);
    return static_cast<std::uint16_t>(sign | (kept + (up ? 1u : 0u)));
  }
};

// The upper half of a float: 1 sign, 8 exponent and 7 fraction bits.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits(round(value)) {}

  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  static constexpr std::uint16_t round(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    if ((wide & 0x7fffffffu) > 0x7f800000u) {  // NaN: becomes quiet, so rounding makes no infinity
      return static_cast<std::uint16_t>((wide >> 16) | 0x40u);
    }
    return static_cast<std::uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
  }
};

}  // namespace hvd

#endif  // HVD_FLOAT16_HPP_
