// The arithmetic of NCCL's double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nccl_double {

// An ncclRedOp_t, or a sum of inputs that are first multiplied by a factor.
struct Reduction {
  int op = 0;
  bool has_factor = false;
  std::uint64_t factor = 0;  // holds one value of the type
};

// Returns the bytes of one element of an ncclDataType_t, or 0 for an unknown type.
std::size_t element_bytes(int type);

// Reduces the inputs of all ranks. inputs[r] has `count` elements of rank r.
void reduce(int type, const Reduction& reduction, const std::vector<const std::byte*>& inputs,
            std::byte* output, std::size_t count);

}  // namespace nccl_double
