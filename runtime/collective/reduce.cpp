#include "collective/reduce.hpp"

#include "hvd/float16.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace libhvd {
namespace {

__extension__ typedef __int128 Int128;  // sums of any number of int64 that fits an int

struct Bool {
  std::uint8_t byte;
};

// How an element is held while it is reduced, and how it is put back.
template <class T>
struct Held {
  using Type = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

template <class T>
requires std::is_integral_v<T>
struct Held<T> {
  using Type = std::make_unsigned_t<T>;  // wraps without undefined behaviour
  static Type load(T value) { return static_cast<Type>(value); }
  static T store(Type value) { return static_cast<T>(value); }
};

template <class T>
requires std::is_same_v<T, hvd::float16> || std::is_same_v<T, hvd::bfloat16>
struct Held<T> {
  using Type = float;
  static float load(T value) { return static_cast<float>(value); }
  static T store(float value) { return T(value); }
};

template <>
struct Held<Bool> {
  using Type = std::uint8_t;
  static std::uint8_t load(Bool value) { return value.byte != 0; }
  static Bool store(std::uint8_t value) { return {static_cast<std::uint8_t>(value != 0)}; }
};

// Integers whose order or exact sum counts: held as they are, or wider.
template <class T>
struct Ordered {
  using Type = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

template <class T>
struct Exact {
  using Type = std::conditional_t<sizeof(T) == 8, Int128, std::int64_t>;
  static Type load(T value) { return value; }
  static T store(Type value) { return static_cast<T>(value); }
};

// Blocks that stay in the first-level cache; every element goes through the same operations
// wherever it stands in a block.
template <class T, class Hold, class Combine, class Finish>
void reduce_blocks(std::span<const void* const> inputs, T* output, std::size_t count,
                   Combine combine, Finish finish) {
  constexpr std::size_t kBlock = 512;
  typename Hold::Type held[kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t length = std::min(kBlock, count - start);
    const T* first = static_cast<const T*>(inputs[0]) + start;
    for (std::size_t i = 0; i < length; ++i) held[i] = Hold::load(first[i]);
    for (const void* input : inputs.subspan(1)) {
      const T* next = static_cast<const T*>(input) + start;
      for (std::size_t i = 0; i < length; ++i) held[i] = combine(held[i], Hold::load(next[i]));
    }
    for (std::size_t i = 0; i < length; ++i) output[start + i] = Hold::store(finish(held[i]));
  }
}

constexpr auto kSame = [](auto value) { return value; };

// Small unsigned types are promoted to int, whose product could overflow: compute in 32 bits.
constexpr auto kAdd = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
constexpr auto kMultiply = [](auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), std::uint16_t>) {
    return static_cast<std::uint16_t>(static_cast<std::uint32_t>(a) * b);
  } else {
    return static_cast<decltype(a)>(a * b);
  }
};

template <class V>
bool is_nan(V value) {
  if constexpr (std::is_floating_point_v<V>) return std::isnan(value);
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
void reduce_numbers(hvd_op op, std::span<const void* const> inputs, T* output, std::size_t count) {
  using OrderedHold = std::conditional_t<std::is_integral_v<T>, Ordered<T>, Held<T>>;
  using AverageHold = std::conditional_t<std::is_integral_v<T>, Exact<T>, Held<T>>;
  using Average = typename AverageHold::Type;
  const auto size = static_cast<Average>(inputs.size());
  const auto divide = [size](Average sum) { return static_cast<Average>(sum / size); };
  switch (op) {
    case HVD_SUM:
      return reduce_blocks<T, Held<T>>(inputs, output, count, kAdd, kSame);
    case HVD_PRODUCT:
      return reduce_blocks<T, Held<T>>(inputs, output, count, kMultiply, kSame);
    case HVD_MIN:
      return reduce_blocks<T, OrderedHold>(inputs, output, count, kMin, kSame);
    case HVD_MAX:
      return reduce_blocks<T, OrderedHold>(inputs, output, count, kMax, kSame);
    default:
      return reduce_blocks<T, AverageHold>(inputs, output, count, kAdd, divide);
  }
}

void reduce_bools(hvd_op op, std::span<const void* const> inputs, Bool* output, std::size_t count) {
  if (op == HVD_SUM || op == HVD_MAX) {
    reduce_blocks<Bool, Held<Bool>>(inputs, output, count, kOr, kSame);
  } else {
    reduce_blocks<Bool, Held<Bool>>(inputs, output, count, kAnd, kSame);
  }
}

}  // namespace

void reduce(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* output,
            std::size_t count) {
  const auto as = [&]<class T>(T*) {
    reduce_numbers<T>(op, inputs, static_cast<T*>(output), count);
  };
  switch (type) {
    case HVD_UINT8:
      return as(static_cast<std::uint8_t*>(nullptr));
    case HVD_INT8:
      return as(static_cast<std::int8_t*>(nullptr));
    case HVD_UINT16:
      return as(static_cast<std::uint16_t*>(nullptr));
    case HVD_INT16:
      return as(static_cast<std::int16_t*>(nullptr));
    case HVD_INT32:
      return as(static_cast<std::int32_t*>(nullptr));
    case HVD_INT64:
      return as(static_cast<std::int64_t*>(nullptr));
    case HVD_FLOAT16:
      return as(static_cast<hvd::float16*>(nullptr));
    case HVD_FLOAT32:
      return as(static_cast<float*>(nullptr));
    case HVD_FLOAT64:
      return as(static_cast<double*>(nullptr));
    case HVD_BFLOAT16:
      return as(static_cast<hvd::bfloat16*>(nullptr));
    case HVD_BOOL:
      return reduce_bools(op, inputs, static_cast<Bool*>(output), count);
    default:
      return;
  }
}

}  // namespace libhvd
