// The arithmetic of NCCL's double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nccl_double {

// ncclRedOp_t, or a sum of inputs that are multiplied by a factor first.
struct Reduction {
  int op = 0;
  bool has_factor = false;
  std::uint64_t factor = 0;  // one value of the type
};

// Bytes of one element of an ncclDataType_t; 0: there is none.
std::size_t element_bytes(int type);

// inputs[r]: `count` elements of rank r.
void reduce(int type, const Reduction& reduction, const std::vector<const std::byte*>& inputs,
            std::byte* output, std::size_t count);

}  // namespace nccl_double
