#include "collective/reduction_order.hpp"

#include "collective/element.hpp"

#include <algorithm>

namespace libhvd {
namespace {

// What is held of a host stays in the first-level cache, for up to eight hosts or so.
constexpr std::size_t kStretch = 512;  // elements
constexpr std::size_t kMostHeld = 16;  // bytes of an element

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

}  // namespace libhvd
