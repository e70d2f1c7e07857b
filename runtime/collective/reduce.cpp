#include "collective/reduce.hpp"

#include "collective/element.hpp"
#include "collective/reduce_kernels.hpp"
#include "common/processor.hpp"

namespace libhvd {
namespace {

ReduceKernel* kernel_for(InstructionSet set) {
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::avx512:
      return reduce_avx512;
    case InstructionSet::avx2:
      return reduce_avx2;
#endif
    default:
      return reduce_plain;
  }
}

ReduceKernel* find_best_kernel() {
  for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2}) {
    if (processor_has(set)) return kernel_for(set);
  }
  return reduce_plain;
}

ReduceKernel* best_kernel() {
  static ReduceKernel* const best = find_best_kernel();
  return best;
}

}  // namespace

const char* instruction_set_name(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return "AVX-512";
    case InstructionSet::avx2:
      return "AVX2";
    case InstructionSet::plain:
      return "plain";
  }
  return "unknown";
}

bool processor_has(InstructionSet set) {
  if (set == InstructionSet::avx2) return common::has_avx2_and_f16c();
  if (set == InstructionSet::avx512) return common::has_avx512();
  return set == InstructionSet::plain;
}

void reduce(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* output,
            std::size_t count, const Scale& scale) {
  best_kernel()({ReduceStage::whole, op, type, inputs.data(), inputs.size(), output, count,
                 scale.before, scale.after, inputs.size()});
}

void reduce_begin(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* partial,
                  std::size_t count, const Scale& scale) {
  best_kernel()({ReduceStage::begin, op, type, inputs.data(), inputs.size(), partial, count,
                 scale.before, scale.after, inputs.size()});
}

void reduce_end(hvd_op op, hvd_type type, std::span<const void* const> partials, std::size_t ranks,
                void* output, std::size_t count, const Scale& scale) {
  best_kernel()({ReduceStage::end, op, type, partials.data(), partials.size(), output, count,
                 scale.before, scale.after, ranks});
}

std::size_t partial_size(hvd_op op, hvd_type type) {
  const std::size_t element = element_size(type);
  if (type == HVD_FLOAT16 || type == HVD_BFLOAT16) return sizeof(float);
  const bool integers = type != HVD_FLOAT32 && type != HVD_FLOAT64 && type != HVD_BOOL;
  if (op != HVD_AVERAGE || !integers) return element;
  return element == 8 ? 16 : 8;
}

void reduce_with(InstructionSet set, hvd_op op, hvd_type type, std::span<const void* const> inputs,
                 void* output, std::size_t count, const Scale& scale) {
  kernel_for(set)({ReduceStage::whole, op, type, inputs.data(), inputs.size(), output, count,
                   scale.before, scale.after, inputs.size()});
}

}  // namespace libhvd
