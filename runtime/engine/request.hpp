// A collective that was submitted to the engine. A plain value.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"
#include "gpu/device_calls.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace libhvd {

// The arguments of an allreduce, so that the engine can fuse it with others.
struct AllreduceArguments {
  const void* input;
  void* output;
  std::size_t count;  // elements
  hvd_type type;
  hvd_op op;
};

// Where the gradients of a call are, before the reduction.
struct GradientBuffer {
  const void* data;
  std::size_t bytes;
};

struct Request {
  std::string kind;           // "allreduce"
  CallOptions options;        // without a name, which is the next member
  std::string name;           // "": the engine gives it one, by kind and order
  std::int32_t priority = 0;  // of those that are ready, the largest runs first
  // Runs it on its own, on the thread that drives the engine.
  std::function<Result<void>(Communicator&, const CallOptions&)> run;
  std::optional<AllreduceArguments> allreduce;   // nullopt: it cannot be fused
  std::shared_ptr<DeviceCall> device_call;       // null: the buffers are in host memory
  std::optional<GradientBuffer> gradients = {};  // with hvd_options.gradients
};

// Returns `allreduce "grad.3"`, for messages.
inline std::string title_of(const Request& request) {
  return request.kind + " \"" + request.name + '"';
}

}  // namespace libhvd
