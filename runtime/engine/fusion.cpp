#include "engine/fusion.hpp"

#include "collective/arguments.hpp"
#include "collective/element.hpp"

#include <cstring>
#include <string>

namespace libhvd {

bool FusionPlan::add(const Request& request) {
  if (!request.allreduce || !request.options.fault.empty()) return false;
  const AllreduceArguments& own = *request.allreduce;
  if (!allreduce_is_sound(own.input, own.output, own.count, own.type, own.op)) return false;
  const std::size_t bytes = own.count * element_size(own.type);
  if (bytes > kLargestFusedBytes || bytes_ + bytes > kFusionBytes) return false;
  if (first_ == nullptr) {
    first_ = &request;
  } else {
    const AllreduceArguments& first = *first_->allreduce;
    const Scale& scale = first_->options.scale;
    if (own.type != first.type || own.op != first.op ||
        request.options.scale.before != scale.before || request.options.scale.after != scale.after)
      return false;
  }
  ++size_;
  bytes_ += bytes;
  return true;
}

Outcome run_fused(Communicator& communicator, std::span<const Request* const> requests,
                  std::vector<std::byte>& scratch) {
  scratch.clear();
  std::string name;  // the same on two ranks only when they have packed the same
  for (const Request* request : requests) {
    const AllreduceArguments& own = *request->allreduce;
    const auto* const bytes = static_cast<const std::byte*>(own.input);
    scratch.insert(scratch.end(), bytes, bytes + own.count * element_size(own.type));
    name += request->name + ' ' + std::to_string(own.count) + '\n';
  }
  const AllreduceArguments& first = *requests.front()->allreduce;
  CallOptions options = requests.front()->options;
  options.name = name.c_str();
  HVD_CHECK(communicator.allreduce(scratch.data(), scratch.data(),
                                   scratch.size() / element_size(first.type), first.type, first.op,
                                   options));
  const std::byte* from = scratch.data();
  for (const Request* request : requests) {
    const AllreduceArguments& own = *request->allreduce;
    const std::size_t bytes = own.count * element_size(own.type);
    if (bytes > 0) std::memcpy(own.output, from, bytes);
    from += bytes;
  }
  return Done{};
}

}  // namespace libhvd
