#include "collective/reduce.hpp"

#include "collective/element.hpp"
#include "collective/reduce_kernels.hpp"

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace libhvd {
namespace {

// What is held of a host stays in the first-level cache, for up to eight hosts or so.
constexpr std::size_t kStretch = 512;  // elements
constexpr std::size_t kMostHeld = 16;  // bytes of an element

#if defined(__x86_64__)
// Not every compiler knows this one by name in __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

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

ReductionOrder::ReductionOrder(std::span<const int> hosts) {
  ranks_.resize(static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1);
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks_[static_cast<std::size_t>(hosts[rank])].push_back(rank);
  in_two_parts_ = ranks_.size() > 1 && hosts.size() > ranks_.size();
  by_rank_ = ranks_.size() == 1 || std::is_sorted(hosts.begin(), hosts.end());
  if (in_two_parts_) held_.resize(ranks_.size() * kStretch * kMostHeld);
}

void ReductionOrder::reduce(hvd_op op, hvd_type type, std::span<const void* const> inputs,
                            void* output, std::size_t count, const Scale& scale) {
  if (!in_two_parts_ && by_rank_) return libhvd::reduce(op, type, inputs, output, count, scale);
  if (!in_two_parts_) {
    inputs_.clear();
    for (const auto& ranks : ranks_) inputs_.push_back(inputs[ranks.front()]);
    return libhvd::reduce(op, type, inputs_, output, count, scale);
  }
  const std::size_t element = element_size(type);
  for (std::size_t begin = 0; begin < count; begin += kStretch) {
    const std::size_t now = std::min(kStretch, count - begin);
    given_.clear();
    for (const auto& ranks : ranks_) {
      inputs_.clear();
      for (const std::size_t rank : ranks)
        inputs_.push_back(static_cast<const std::byte*>(inputs[rank]) + begin * element);
      std::byte* const held = held_.data() + given_.size() * kStretch * kMostHeld;
      reduce_begin(op, type, inputs_, held, now, scale);
      given_.push_back(held);
    }
    reduce_end(op, type, given_, inputs.size(), static_cast<std::byte*>(output) + begin * element,
               now, scale);
  }
}

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
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && has_f16c();
  if (set == InstructionSet::avx2) return avx2;
  if (set == InstructionSet::avx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return set == InstructionSet::plain;
}

void reduce(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* output,
            std::size_t count, const Scale& scale) {
  best_kernel()({ReduceStage::whole, op, type, inputs.data(), inputs.size(), output, count,
                 scale.before, scale.after, inputs.size()});
}

void reduce_begin(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* held,
                  std::size_t count, const Scale& scale) {
  best_kernel()({ReduceStage::begin, op, type, inputs.data(), inputs.size(), held, count,
                 scale.before, scale.after, inputs.size()});
}

void reduce_end(hvd_op op, hvd_type type, std::span<const void* const> held, std::size_t ranks,
                void* output, std::size_t count, const Scale& scale) {
  best_kernel()({ReduceStage::end, op, type, held.data(), held.size(), output, count, scale.before,
                 scale.after, ranks});
}

std::size_t held_size(hvd_op op, hvd_type type) {
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
