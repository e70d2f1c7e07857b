#include "nccl_arithmetic.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <hvd/float16.hpp>

namespace nccl_double {
namespace {

// The type in which sums are computed: float for 16-bit floats, unsigned for integers that wrap.
template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<hvd::float16> {
  using type = float;
};
template <>
struct Wide<hvd::bfloat16> {
  using type = float;
};

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class W>
W combine(int op, W one, W other) {
  using U = typename std::conditional_t<std::is_integral_v<W>, std::make_unsigned<W>,
                                        std::type_identity<W>>::type;
  switch (op) {
    case 1:
      return static_cast<W>(static_cast<U>(one) * static_cast<U>(other));
    case 2:
      return std::max(one, other);
    case 3:
      return std::min(one, other);
    default:
      return static_cast<W>(static_cast<U>(one) + static_cast<U>(other));
  }
}

template <class T>
void reduce_as(const Reduction& reduction, const std::vector<const std::byte*>& inputs,
               std::byte* output, std::size_t count) {
  using W = typename Wide<T>::type;
  const W factor =
      reduction.has_factor
          ? static_cast<W>(load<T>(reinterpret_cast<const std::byte*>(&reduction.factor)))
          : W{1};
  for (std::size_t i = 0; i < count; ++i) {
    W value{};
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      W own = static_cast<W>(load<T>(inputs[rank] + i * sizeof(T)));
      if (reduction.has_factor) own = static_cast<W>(own * factor);
      value = rank == 0 ? own : combine(reduction.op, value, own);
    }
    if (reduction.op == 4) value = static_cast<W>(value / static_cast<W>(inputs.size()));
    const T rounded = static_cast<T>(value);
    std::memcpy(output + i * sizeof(T), &rounded, sizeof rounded);
  }
}

}  // namespace

std::size_t element_bytes(int type) {
  constexpr std::size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? kBytes[type] : 0;
}

void reduce(int type, const Reduction& reduction, const std::vector<const std::byte*>& inputs,
            std::byte* output, std::size_t count) {
  switch (type) {
    case 0:
      return reduce_as<std::int8_t>(reduction, inputs, output, count);
    case 1:
      return reduce_as<std::uint8_t>(reduction, inputs, output, count);
    case 2:
      return reduce_as<std::int32_t>(reduction, inputs, output, count);
    case 4:
      return reduce_as<std::int64_t>(reduction, inputs, output, count);
    case 6:
      return reduce_as<hvd::float16>(reduction, inputs, output, count);
    case 7:
      return reduce_as<float>(reduction, inputs, output, count);
    case 8:
      return reduce_as<double>(reduction, inputs, output, count);
    case 9:
      return reduce_as<hvd::bfloat16>(reduction, inputs, output, count);
    default:
      return;
  }
}

}  // namespace nccl_double
