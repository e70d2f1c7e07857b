// The code of one kernel of reduce_kernels.hpp. HVD_REDUCE_KERNEL is the function's name. Only the
// kernel with HVD_REDUCE_SCALES_INTEGERS has code for integers with factors; the others call it.
// That code is two thirds of a kernel, few programs use it, and conversions to double limit its
// speed.
//
// Sources that include this are compiled for different processors. So everything is local to the
// source, and no inline function of another header is called: the linker keeps only one copy of
// such a function, which may be the one for a processor that this machine is not.
//
// The compiler makes vector instructions of the loops. It must not contract a product and a sum
// into one operation (-ffp-contract=off), which would round differently.
#include "collective/reduce_kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace libhvd {
namespace {

__extension__ typedef __int128 Int128;  // holds the sum of as many int64 as an int can count

struct Bool {
  std::uint8_t byte;
};

// How an element is accumulated: its type while it is reduced, and the conversions to and from it.
template <class T>
struct Accumulator {
  using Type = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

template <class T>
requires std::is_integral_v<T>
struct Accumulator<T> {
  using Type = std::make_unsigned_t<T>;  // overflows without undefined behaviour
  static Type load(T value) { return static_cast<Type>(value); }
  static T store(Type value) { return static_cast<T>(value); }
};

template <>
struct Accumulator<Bool> {
  using Type = std::uint8_t;
  static std::uint8_t load(Bool value) { return value.byte != 0; }
  static Bool store(std::uint8_t value) { return {static_cast<std::uint8_t>(value != 0)}; }
};

// Integers whose order matters, accumulated as they are.
template <class T>
struct Ordered {
  using Type = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

// Integers whose exact sum matters, accumulated in a wider type.
template <class T>
struct Exact {
  using Type = std::conditional_t<sizeof(T) == 8, Int128, std::int64_t>;
  static Type load(T value) { return value; }
  static T store(Type value) { return static_cast<T>(value); }
};

// Truncates towards zero. Returns the nearest value of the type if it has no such value, and 0 for
// NaN.
template <class T>
T truncate(double value) {
  constexpr int kBits = static_cast<int>(sizeof(T)) * 8 - (std::is_signed_v<T> ? 1 : 0);
  constexpr T kMost = static_cast<T>(~std::uint64_t{0} >> (64 - kBits));
  constexpr T kLeast = std::is_signed_v<T> ? static_cast<T>(-kMost - 1) : T{0};
  constexpr double kEnd = kBits == 63 ? 0x1p63 : static_cast<double>(std::uint64_t{1} << kBits);
  if (__builtin_isnan(value)) return 0;
  if (value >= kEnd) return kMost;
  if (value <= static_cast<double>(kLeast)) return kLeast;
  return static_cast<T>(value);
}

// Types that are computed in float and stored in 16 bits, as in hvd/float16.hpp.
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

float load_half(BFloat16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

BFloat16 store_bfloat16(float value) {
  const auto wide = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (wide >> 16) | 0x40u;  // rounding could make infinity of a NaN
  const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<std::uint16_t>(nan ? quiet : rounded)};
}

void widen(const BFloat16* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = load_half(from[i]);
}

void narrow(const float* from, BFloat16* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = store_bfloat16(from[i]);
}

#if defined(__F16C__)

void widen(const Float16* from, float* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
  }
  for (; i < count; ++i) to[i] = _cvtsh_ss(from[i].bits);
}

void narrow(const float* from, Float16* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bits);
  }
  for (; i < count; ++i) {
    const __m128i bits = _mm_cvtps_ph(_mm_set_ss(from[i]), _MM_FROUND_TO_NEAREST_INT);
    to[i].bits = static_cast<std::uint16_t>(_mm_cvtsi128_si32(bits));
  }
}

#else

void widen(const Float16* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = from[i].bits;
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t fraction = bits & 0x3ffu;
    const std::uint32_t wide = exponent == 0x1fu ? 0xffu : exponent + 112;
    const float normal = __builtin_bit_cast(float, sign | (wide << 23) | (fraction << 13));
    const float small = static_cast<float>(fraction) * 0x1p-24f;  // zero or subnormal
    to[i] = exponent != 0 ? normal : sign != 0 ? -small : small;
  }
}

std::uint16_t round_to_float16(float value) {
  const auto wide = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t sign = (wide >> 16) & 0x8000u;
  const std::uint32_t magnitude = wide & 0x7fffffffu;
  std::uint32_t bits = 0;
  if (magnitude > 0x7f800000u) {  // NaN: quiet, the upper payload kept
    bits = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // >= 65520
    bits = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal
    bits = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  } else if (magnitude >= 0x33000000u) {  // >= 2^-25
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t shift = 126 - (magnitude >> 23);
    const std::uint32_t kept = significand >> shift;
    const std::uint32_t rest = significand & ((1u << shift) - 1);
    const std::uint32_t half = 1u << (shift - 1);
    bits = kept + (rest > half || (rest == half && (kept & 1u) != 0) ? 1 : 0);
  }
  return static_cast<std::uint16_t>(sign | bits);
}

void narrow(const float* from, Float16* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i].bits = round_to_float16(from[i]);
}

#endif

// Elements of a block, which stays in the first-level cache. Every element goes through the same
// operations wherever it is in a block.
constexpr std::size_t kBlock = 512;

constexpr std::size_t block_length(std::size_t start, std::size_t count) {
  return count - start < kBlock ? count - start : kBlock;
}

// Declares that the turns of the next loop do not depend on each other, even if the output is an
// input.
#if defined(__clang__)
#define HVD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HVD_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Reduces block by block. `load` makes an accumulator of an input's element, `store` makes an
// output's element of an accumulator.
template <class In, class Out, class Load, class Combine, class Store>
void reduce_blocks(const ReduceJob& job, Load load, Combine combine, Store store) {
  // A copy: the compiler takes a byte that is written for a part of the job.
  const std::size_t count = job.count;
  Out* const output = static_cast<Out*>(job.output);
  const auto input = [&](std::size_t rank) { return static_cast<const In*>(job.inputs[rank]); };
  if (job.ranks == 2) {
    const In* const first = input(0);
    const In* const second = input(1);
    HVD_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i)
      output[i] = store(combine(load(first[i]), load(second[i])));
    return;
  }
  decltype(load(In())) held[kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t length = block_length(start, count);
    for (std::size_t i = 0; i < length; ++i) held[i] = load(input(0)[start + i]);
    for (std::size_t rank = 1; rank < job.ranks; ++rank) {
      const In* const next = input(rank) + start;
      for (std::size_t i = 0; i < length; ++i) held[i] = combine(held[i], load(next[i]));
    }
    for (std::size_t i = 0; i < length; ++i) output[start + i] = store(held[i]);
  }
}

// Runs the job's stage for elements T. Kind is their accumulator.
template <class T, class Kind, class Load, class Combine, class Finish>
void reduce_stage(const ReduceJob& job, Load load, Combine combine, Finish finish) {
  using Value = typename Kind::Type;
  const auto same = [](Value value) { return value; };
  const auto store = [finish](Value value) { return Kind::store(finish(value)); };
  switch (job.stage) {
    case ReduceStage::begin:
      return reduce_blocks<T, Value>(job, load, combine, same);
    case ReduceStage::end:
      return reduce_blocks<Value, T>(job, same, combine, store);
    case ReduceStage::whole:
      return reduce_blocks<T, T>(job, load, combine, store);
  }
}

// Loads `count` elements of an input as floats.
template <class Half>
void load_halves(const ReduceJob& job, std::size_t rank, std::size_t start, float* to,
                 std::size_t count) {
  if (job.stage == ReduceStage::end) {
    const float* const from = static_cast<const float*>(job.inputs[rank]) + start;
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  const auto before = static_cast<float>(job.before);
  widen(static_cast<const Half*>(job.inputs[rank]) + start, to, count);
  if (before != 1) {
    for (std::size_t i = 0; i < count; ++i) to[i] *= before;
  }
}

template <class Half, class Combine, class Finish>
void reduce_halves(const ReduceJob& job, Combine combine, Finish finish) {
  float held[kBlock];
  float wide[kBlock];
  for (std::size_t start = 0; start < job.count; start += kBlock) {
    const std::size_t length = block_length(start, job.count);
    load_halves<Half>(job, 0, start, held, length);
    for (std::size_t rank = 1; rank < job.ranks; ++rank) {
      load_halves<Half>(job, rank, start, wide, length);
      for (std::size_t i = 0; i < length; ++i) held[i] = combine(held[i], wide[i]);
    }
    if (job.stage == ReduceStage::begin) {
      float* const partial = static_cast<float*>(job.output) + start;
      for (std::size_t i = 0; i < length; ++i) partial[i] = held[i];
      continue;
    }
    for (std::size_t i = 0; i < length; ++i) held[i] = finish(held[i]);
    narrow(held, static_cast<Half*>(job.output) + start, length);
  }
}

constexpr auto kSame = [](auto value) { return value; };

constexpr auto kAdd = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
// Multiplies 16-bit unsigned integers in 32 bits: promoted to int, their product could overflow.
constexpr auto kMultiply = [](auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), std::uint16_t>) {
    return static_cast<std::uint16_t>(static_cast<std::uint32_t>(a) * b);
  } else {
    return static_cast<decltype(a)>(a * b);
  }
};

// Min and max return a NaN if an input is NaN.
template <class V>
constexpr bool is_nan(V value) {
  if constexpr (std::is_floating_point_v<V>) return __builtin_isnan(value);
  return false;
}

constexpr auto kMin = [](auto a, auto b) { return (b < a || is_nan(b)) ? b : a; };
constexpr auto kMax = [](auto a, auto b) { return (a < b || is_nan(b)) ? b : a; };
constexpr auto kOr = [](std::uint8_t a, std::uint8_t b) {
  return static_cast<std::uint8_t>(a | b);
};
constexpr auto kAnd = [](std::uint8_t a, std::uint8_t b) {
  return static_cast<std::uint8_t>(a & b);
};

template <class T>
void reduce_numbers(const ReduceJob& job) {
  using OrderedAccumulator = std::conditional_t<std::is_integral_v<T>, Ordered<T>, Accumulator<T>>;
  using AverageAccumulator = std::conditional_t<std::is_integral_v<T>, Exact<T>, Accumulator<T>>;
  using Average = typename AverageAccumulator::Type;
  const auto size = static_cast<Average>(job.divisor);
  const auto divide = [size](Average sum) { return static_cast<Average>(sum / size); };
  const auto divisor = static_cast<double>(job.divisor);
  const auto run = [&]<class Kind>(Kind, auto combine, auto finish) {
    const auto load = [](T value) { return Kind::load(value); };
    if (job.before == 1 && job.after == 1) {
      reduce_stage<T, Kind>(job, load, combine, finish);
      // Branches that are left out look alike to clang-tidy. NOLINTNEXTLINE(bugprone-branch-clone)
    } else if constexpr (std::is_floating_point_v<T>) {
      const auto before = static_cast<T>(job.before);
      const auto after = static_cast<T>(job.after);
      reduce_stage<T, Kind>(
          job, [before](T value) { return value * before; }, combine,
          [after, finish](T value) { return finish(value) * after; });
    } else if constexpr (HVD_REDUCE_SCALES_INTEGERS) {
      const double before = job.before;
      const double after = job.op == HVD_AVERAGE ? job.after / divisor : job.after;
      reduce_stage<T, Kind>(
          job,
          [before](T value) {
            return Kind::load(truncate<T>(static_cast<double>(value) * before));
          },
          combine,
          [after](typename Kind::Type value) {
            if constexpr (sizeof(value) > sizeof(T))  // of an average
              return Kind::load(truncate<T>(static_cast<double>(value) * after));
            else
              return Kind::load(truncate<T>(static_cast<double>(Kind::store(value)) * after));
          });
    } else {
      reduce_plain(job);
    }
  };
  switch (job.op) {
    case HVD_SUM:
      return run(Accumulator<T>(), kAdd, kSame);
    case HVD_PRODUCT:
      return run(Accumulator<T>(), kMultiply, kSame);
    case HVD_MIN:
      return run(OrderedAccumulator(), kMin, kSame);
    case HVD_MAX:
      return run(OrderedAccumulator(), kMax, kSame);
    default:
      return run(AverageAccumulator(), kAdd, divide);
  }
}

template <class Half>
void reduce_halves(const ReduceJob& job) {
  const auto size = static_cast<float>(job.divisor);
  const auto after = static_cast<float>(job.after);
  const auto same = [after](float value) { return value * after; };
  const auto divide = [size, after](float sum) { return sum / size * after; };
  switch (job.op) {
    case HVD_SUM:
      return reduce_halves<Half>(job, kAdd, same);
    case HVD_PRODUCT:
      return reduce_halves<Half>(job, kMultiply, same);
    case HVD_MIN:
      return reduce_halves<Half>(job, kMin, same);
    case HVD_MAX:
      return reduce_halves<Half>(job, kMax, same);
    default:
      return reduce_halves<Half>(job, kAdd, divide);
  }
}

void reduce_bools(const ReduceJob& job) {
  const auto run = [&](auto combine) {
    const auto load = [](Bool value) { return Accumulator<Bool>::load(value); };
    reduce_stage<Bool, Accumulator<Bool>>(job, load, combine, kSame);
  };
  return job.op == HVD_SUM || job.op == HVD_MAX ? run(kOr) : run(kAnd);
}

}  // namespace

void HVD_REDUCE_KERNEL(const ReduceJob& job) {
  switch (job.type) {
    case HVD_UINT8:
      return reduce_numbers<std::uint8_t>(job);
    case HVD_INT8:
      return reduce_numbers<std::int8_t>(job);
    case HVD_UINT16:
      return reduce_numbers<std::uint16_t>(job);
    case HVD_INT16:
      return reduce_numbers<std::int16_t>(job);
    case HVD_INT32:
      return reduce_numbers<std::int32_t>(job);
    case HVD_INT64:
      return reduce_numbers<std::int64_t>(job);
    case HVD_FLOAT16:
      return reduce_halves<Float16>(job);
    case HVD_FLOAT32:
      return reduce_numbers<float>(job);
    case HVD_FLOAT64:
      return reduce_numbers<double>(job);
    case HVD_BFLOAT16:
      return reduce_halves<BFloat16>(job);
    case HVD_BOOL:
      return reduce_bools(job);
    default:
      return;
  }
}

}  // namespace libhvd
