#include "gpu/nccl_reduction.hpp"

#include "hvd/float16.hpp"

#include <cmath>
#include <cstring>

namespace libhvd {
namespace {

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// Returns the bits of one value of the type; nullopt if the 16-bit type does not have it.
template <class Half>
std::optional<std::uint64_t> exact_half(double factor) {
  const Half half(static_cast<float>(factor));
  if (static_cast<double>(static_cast<float>(half)) != factor) return std::nullopt;
  return bits_of(half);
}

std::optional<std::uint64_t> encode_factor(NcclType type, double factor) {
  switch (type) {
    case NcclType::float16:
      return exact_half<hvd::float16>(factor);
    case NcclType::bfloat16:
      return exact_half<hvd::bfloat16>(factor);
    case NcclType::float32:
      return bits_of(static_cast<float>(factor));
    case NcclType::float64:
      return bits_of(factor);
    default:
      return std::nullopt;
  }
}

bool is_floating(NcclType type) {
  return type == NcclType::float16 || type == NcclType::bfloat16 || type == NcclType::float32 ||
         type == NcclType::float64;
}

NcclOp plain_op(hvd_op op) {
  switch (op) {
    case HVD_AVERAGE:
      return NcclOp::average;
    case HVD_MIN:
      return NcclOp::min;
    case HVD_MAX:
      return NcclOp::max;
    case HVD_PRODUCT:
      return NcclOp::product;
    default:
      return NcclOp::sum;
  }
}

}  // namespace

std::optional<NcclType> nccl_type(hvd_type type) {
  switch (type) {
    case HVD_UINT8:
      return NcclType::uint8;
    case HVD_INT8:
      return NcclType::int8;
    case HVD_INT32:
      return NcclType::int32;
    case HVD_INT64:
      return NcclType::int64;
    case HVD_FLOAT16:
      return NcclType::float16;
    case HVD_FLOAT32:
      return NcclType::float32;
    case HVD_FLOAT64:
      return NcclType::float64;
    case HVD_BFLOAT16:
      return NcclType::bfloat16;
    default:
      return std::nullopt;
  }
}

std::optional<NcclReduction> find_nccl_reduction(hvd_type type, hvd_op op, const Scale& scale,
                                                 int size) {
  const auto own = nccl_type(type);
  if (!own) return std::nullopt;
  if (op == HVD_ADASUM || (op == HVD_AVERAGE && !is_floating(*own))) return std::nullopt;
  if (!scale.any()) return NcclReduction{*own, plain_op(op)};
  if (op != HVD_SUM && op != HVD_AVERAGE) return std::nullopt;
  const double divisor = op == HVD_AVERAGE ? size : 1;
  const auto factor = encode_factor(*own, scale.before * scale.after / divisor);
  if (!factor) return std::nullopt;
  return NcclReduction{*own, NcclOp::sum, true, *factor};
}

}  // namespace libhvd
