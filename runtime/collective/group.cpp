#include "collective/group.hpp"

#include "collective/arguments.hpp"
#include "collective/call.hpp"
#include "collective/element.hpp"
#include "collective/error_feedback.hpp"
#include "collective/staging.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

namespace libhvd {
namespace {

Fault of_tensor(std::size_t index, const Fault& fault) {
  return "tensor " + std::to_string(index) + ": " + std::string(fault.text());
}

Fault check_group(const AllreduceGroup& group) {
  for (std::size_t i = 0; i < group.lengths.size(); ++i) {
    const Fault fault =
        check_allreduce(group.inputs[i], group.outputs[i], group.lengths[i], group.type, group.op);
    if (!fault.empty()) return of_tensor(i, fault);
  }
  return {};
}

std::uint64_t hash_lengths(const std::vector<std::size_t>& lengths) {
  return hash_name(
      {reinterpret_cast<const char*>(lengths.data()), lengths.size() * sizeof(std::size_t)});
}

// Reduces tensors first ... end-1 as one, their bytes packed one after the other.
Result<void> allreduce_packed(Communicator& communicator, const AllreduceGroup& group,
                              std::size_t first, std::size_t end, const CallOptions& options) {
  const std::size_t element = element_size(group.type);
  std::vector<std::byte> packed;
  for (std::size_t i = first; i < end; ++i) {
    const std::byte* const bytes = bytes_of(group.inputs[i]);
    packed.insert(packed.end(), bytes, bytes + group.lengths[i] * element);
  }
  if (group.op == HVD_ADASUM) {
    HVD_CHECK(communicator.adasum(packed.data(), packed.data(),
                                  std::span(group.lengths).subspan(first, end - first), group.type,
                                  options));
  } else {
    HVD_CHECK(communicator.allreduce(packed.data(), packed.data(), packed.size() / element,
                                     group.type, group.op, options));
  }
  const std::byte* from = packed.data();
  for (std::size_t i = first; i < end; ++i) {
    copy_bytes(group.outputs[i], from, group.lengths[i] * element);
    from += group.lengths[i] * element;
  }
  return {};
}

// Returns the end of the tensors that are packed together with tensor `first`.
std::size_t end_of_pack(const AllreduceGroup& group, std::size_t first) {
  const std::size_t element = element_size(group.type);
  std::size_t bytes = 0;
  std::size_t end = first;
  while (end < group.lengths.size()) {
    const std::size_t own = group.lengths[end] * element;
    if (own > kLargestPacked || bytes + own > kPackedBytes) break;
    bytes += own;
    ++end;
  }
  return end;
}

}  // namespace

Result<bool> open_allreduce_group(Communicator& communicator, const AllreduceGroup& group,
                                  const CallOptions& options) {
  CallOptions first = options;
  if (first.fault.empty()) first.fault = check_group(group);
  if (first.fault.empty()) first.fault = check_scale(first.scale, group.type);
  for (std::size_t i = 0; first.fault.empty() && i < group.lengths.size(); ++i) {
    first.fault = check_compression(first.compression, group.inputs[i], group.lengths[i],
                                    group.type, group.op, first.place.on_device);
    if (!first.fault.empty()) first.fault = of_tensor(i, first.fault);
  }
  return communicator.open_group(group.lengths.size(), hash_lengths(group.lengths), group.type,
                                 group.op, first);
}

Result<void> allreduce_group(Communicator& communicator, const AllreduceGroup& group,
                             const CallOptions& options) {
  HVD_TRY(const bool with_joined, open_allreduce_group(communicator, group, options));
  CallOptions own = options;
  if (own.feedback != nullptr) {  // the residuals of all tensors, one after the other
    const auto all = std::accumulate(group.lengths.begin(), group.lengths.end(), std::size_t{0});
    own.residuals = own.feedback->residuals(all, group.type, group.op);
    own.feedback = nullptr;
  }
  for (std::size_t i = 0; i < group.lengths.size();) {
    const std::size_t end = with_joined ? i + 1 : std::max(i + 1, end_of_pack(group, i));
    if (end > i + 1) {
      HVD_CHECK(allreduce_packed(communicator, group, i, end, own));
    } else {
      HVD_CHECK(communicator.allreduce(group.inputs[i], group.outputs[i], group.lengths[i],
                                       group.type, group.op, own));
    }
    for (; i < end; ++i) {
      if (own.residuals != nullptr) own.residuals += group.lengths[i];
    }
  }
  return {};
}

}  // namespace libhvd
