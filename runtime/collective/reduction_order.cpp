#include "collective/reduction_order.hpp"

#include "collective/element.hpp"
#include "collective/reduce.hpp"

#include <algorithm>

namespace libhvd {
namespace {

// The number of elements that are reduced at a time. Their partial results stay in the first-level
// cache with up to about eight hosts.
constexpr std::size_t kAtATime = 512;
constexpr std::size_t kMostPartialBytes = 16;  // of an element

}  // namespace

ReductionOrder::ReductionOrder(std::span<const int> hosts) {
  ranks_.resize(static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1);
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks_[static_cast<std::size_t>(hosts[rank])].push_back(rank);
  in_two_parts_ = ranks_.size() > 1 && hosts.size() > ranks_.size();
  by_rank_ = ranks_.size() == 1 || std::is_sorted(hosts.begin(), hosts.end());
  if (in_two_parts_) partial_bytes_.resize(ranks_.size() * kAtATime * kMostPartialBytes);
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
  for (std::size_t begin = 0; begin < count; begin += kAtATime) {
    const std::size_t now = std::min(kAtATime, count - begin);
    partials_.clear();
    for (const auto& ranks : ranks_) {
      inputs_.clear();
      for (const std::size_t rank : ranks)
        inputs_.push_back(static_cast<const std::byte*>(inputs[rank]) + begin * element);
      std::byte* const partial =
          partial_bytes_.data() + partials_.size() * kAtATime * kMostPartialBytes;
      reduce_begin(op, type, inputs_, partial, now, scale);
      partials_.push_back(partial);
    }
    reduce_end(op, type, partials_, inputs.size(),
               static_cast<std::byte*>(output) + begin * element, now, scale);
  }
}

}  // namespace libhvd
