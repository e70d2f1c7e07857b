// Maps the types of hvd.h to C++ types, and has the numbers of the checks' tensors. Every type can
// represent every number and every result of up to 12 ranks exactly, except averages.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <hvd/float16.hpp>
#include <hvd/hvd.h>

namespace gpu_check {

struct Bool {
  std::uint8_t byte;
};

template <class T>
struct Element;  // its hvd_type, its name, and the relative error of a rounded result

#define GPU_CHECK_ELEMENT(cpp_type, number, word, error) \
  template <>                                            \
  struct Element<cpp_type> {                             \
    static constexpr hvd_type type = number;             \
    static constexpr const char* name = word;            \
    static constexpr double tolerance = error;           \
  }
GPU_CHECK_ELEMENT(std::uint8_t, HVD_UINT8, "uint8", 0);
GPU_CHECK_ELEMENT(std::int8_t, HVD_INT8, "int8", 0);
GPU_CHECK_ELEMENT(std::uint16_t, HVD_UINT16, "uint16", 0);
GPU_CHECK_ELEMENT(std::int16_t, HVD_INT16, "int16", 0);
GPU_CHECK_ELEMENT(std::int32_t, HVD_INT32, "int32", 0);
GPU_CHECK_ELEMENT(std::int64_t, HVD_INT64, "int64", 0);
GPU_CHECK_ELEMENT(hvd::float16, HVD_FLOAT16, "float16", 0x1p-9);
GPU_CHECK_ELEMENT(float, HVD_FLOAT32, "float32", 0x1p-22);
GPU_CHECK_ELEMENT(double, HVD_FLOAT64, "float64", 0x1p-50);
GPU_CHECK_ELEMENT(Bool, HVD_BOOL, "bool", 0);
GPU_CHECK_ELEMENT(hvd::bfloat16, HVD_BFLOAT16, "bfloat16", 0x1p-6);
#undef GPU_CHECK_ELEMENT

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, hvd::float16> || std::is_same_v<T, hvd::bfloat16>;
template <class T>
constexpr bool kIsBool = std::is_same_v<T, Bool>;
template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

// Calls function.operator()<T>() for each type.
template <class Function>
void for_each_type(const Function& function) {
  function.template operator()<std::uint8_t>();
  function.template operator()<std::int8_t>();
  function.template operator()<std::uint16_t>();
  function.template operator()<std::int16_t>();
  function.template operator()<std::int32_t>();
  function.template operator()<std::int64_t>();
  function.template operator()<hvd::float16>();
  function.template operator()<float>();
  function.template operator()<double>();
  function.template operator()<Bool>();
  function.template operator()<hvd::bfloat16>();
}

// Converts a number to the type. A bool is true if the number is odd.
template <class T>
T to_element(double number) {
  if constexpr (kIsBool<T>) {
    return {static_cast<std::uint8_t>(static_cast<int>(number) % 2)};
  } else if constexpr (kIsHalf<T>) {
    return T(static_cast<float>(number));
  } else {
    return static_cast<T>(number);
  }
}

template <class T>
double to_number(T element) {
  if constexpr (kIsBool<T>) {
    return element.byte;
  } else if constexpr (kIsHalf<T>) {
    return static_cast<float>(element);
  } else {
    return static_cast<double>(element);
  }
}

// Returns the number of a rank at a place: 1 to 11, or 1 and 2 for products. Places whose distance
// is a power of two have different numbers.
inline double number_at(int rank, std::size_t place, hvd_op op) {
  const std::uint32_t mixed = (static_cast<std::uint32_t>(place) * 2654435761u) >> 16;
  const std::uint32_t own = mixed + 3u * static_cast<std::uint32_t>(rank);
  return 1 + own % (op == HVD_PRODUCT ? 2 : 11);
}

// Returns the reduced number of these ranks at a place.
template <class T>
double reduced_at(const std::vector<int>& ranks, std::size_t place, hvd_op op) {
  double result = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double own = to_number(to_element<T>(number_at(ranks[i], place, op)));
    if (i == 0)
      result = own;
    else if (op == HVD_MIN)
      result = std::min(result, own);
    else if (op == HVD_MAX)
      result = std::max(result, own);
    else if (op == HVD_PRODUCT)
      result *= own;
    else
      result += own;
  }
  if (kIsBool<T>) return std::min(result, 1.0);
  if (op != HVD_AVERAGE) return result;
  const double average = result / static_cast<double>(ranks.size());
  return kIsFloat<T> ? average : std::trunc(average);
}

}  // namespace gpu_check
