#include "engine/fusion.hpp"

#include "collective/arguments.hpp"
#include "collective/call.hpp"
#include "collective/element.hpp"
#include "collective/error_feedback.hpp"
#include "gpu/device_collectives.hpp"
#include "gpu/fusion_pieces.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace libhvd {
namespace {

// Runs requests whose buffers are in device memory as one.
Result<void> run_fused_on_device(Communicator& communicator,
                                 std::span<const Request* const> requests) {
  std::vector<DevicePiece> pieces;
  std::vector<DeviceCall*> calls;
  std::string name;  // equal on two ranks only if they have packed the same tensors
  for (const Request* request : requests) {
    const AllreduceArguments& own = *request->allreduce;
    pieces.push_back({own.input, own.output, own.count});
    calls.push_back(request->device_call.get());
    name += request->name + ' ' + std::to_string(own.count) + ' ' + request->options.shape + '\n';
  }
  const AllreduceArguments& first = *requests.front()->allreduce;
  const std::string shown =
      requests.front()->name + " and " + std::to_string(requests.size() - 1) + " more";
  CallOptions options = requests.front()->options;
  options.name = name.c_str();
  options.shape = {};  // the name has the shape of each
  return DeviceCall::run(calls, options, [&](const CallOptions& on_stream) {
    return DeviceCollectives(communicator)
        .allreduce_together(pieces, first.type, first.op, on_stream, shown.c_str());
  });
}

// Returns where the request keeps its residuals; null: nowhere.
float* residuals_of(const Request& request) {
  const AllreduceArguments& own = *request.allreduce;
  ErrorFeedback* const feedback = request.options.feedback;
  return feedback == nullptr ? nullptr : feedback->residuals(own.count, own.type, own.op);
}

// Returns the residuals of all requests, packed like their tensors.
std::vector<float> collect_residuals(std::span<const Request* const> requests) {
  std::vector<float> packed;
  for (const Request* request : requests) {
    const std::size_t count = request->allreduce->count;
    if (const float* own = residuals_of(*request)) {
      packed.insert(packed.end(), own, own + count);
    } else {
      packed.resize(packed.size() + count);
    }
  }
  return packed;
}

void return_residuals(std::span<const Request* const> requests, const std::vector<float>& packed) {
  const float* from = packed.data();
  for (const Request* request : requests) {
    const std::size_t count = request->allreduce->count;
    if (float* own = residuals_of(*request)) std::copy_n(from, count, own);
    from += count;
  }
}

}  // namespace

bool FusionPlan::add(const Request& request) {
  if (!request.allreduce || !request.options.fault.empty()) return false;
  const AllreduceArguments& own = *request.allreduce;
  if (!check_allreduce(own.input, own.output, own.count, own.type, own.op).empty()) return false;
  const bool on_device = request.device_call != nullptr;
  if (request.options.place.on_device != on_device) return false;
  // These run through host memory, one by one.
  if (on_device && (own.op == HVD_ADASUM || request.options.compression != Compression::none))
    return false;
  std::size_t bytes = own.count * element_size(own.type);
  if (bytes > (on_device ? kLargestDevicePiece : limits_.each)) return false;
  if (on_device) bytes = aligned_piece(bytes);
  const std::size_t room =
      on_device && limits_.together > 0 ? kDeviceFusionBytes : limits_.together;
  if (bytes_ + bytes > room) return false;
  if (first_ == nullptr) {
    first_ = &request;
  } else {
    const AllreduceArguments& first = *first_->allreduce;
    const Scale& scale = first_->options.scale;
    if (own.type != first.type || own.op != first.op ||
        on_device != (first_->device_call != nullptr) ||
        request.options.scale.before != scale.before ||
        request.options.scale.after != scale.after ||
        request.options.compression != first_->options.compression)
      return false;
  }
  bytes_ += bytes;
  return true;
}

Result<void> run_fused(Communicator& communicator, std::span<const Request* const> requests,
                       std::vector<std::byte>& scratch) {
  if (requests.front()->device_call) return run_fused_on_device(communicator, requests);
  scratch.clear();
  std::vector<std::size_t> lengths;
  std::string name;  // equal on two ranks only if they have packed the same tensors
  for (const Request* request : requests) {
    const AllreduceArguments& own = *request->allreduce;
    lengths.push_back(own.count);
    const auto* const bytes = static_cast<const std::byte*>(own.input);
    scratch.insert(scratch.end(), bytes, bytes + own.count * element_size(own.type));
    name += (name.empty() ? "" : ", ") + request->name + " (" + std::to_string(own.count) +
            request->options.shape + ")";
  }
  const AllreduceArguments& first = *requests.front()->allreduce;
  CallOptions options = requests.front()->options;
  options.name = name.c_str();
  options.shape = {};  // the name has the shape of each
  std::vector<float> residuals;
  if (options.feedback != nullptr) residuals = collect_residuals(requests);
  options.residuals = residuals.empty() ? nullptr : residuals.data();
  options.feedback = nullptr;
  if (first.op == HVD_ADASUM) {
    HVD_CHECK(communicator.adasum(scratch.data(), scratch.data(), lengths, first.type, options));
  } else {
    HVD_CHECK(communicator.allreduce(scratch.data(), scratch.data(),
                                     scratch.size() / element_size(first.type), first.type,
                                     first.op, options));
  }
  const std::byte* from = scratch.data();
  for (const Request* request : requests) {
    const AllreduceArguments& own = *request->allreduce;
    const std::size_t bytes = own.count * element_size(own.type);
    if (bytes > 0) std::memcpy(own.output, from, bytes);
    from += bytes;
  }
  if (!residuals.empty()) return_residuals(requests, residuals);
  return {};
}

}  // namespace libhvd
