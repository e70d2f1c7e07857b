// A collective that was submitted to the engine.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"
#include "gpu/device_calls.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace libhvd {

// An allreduce, for the engine to carry out together with others.
struct AllreduceArguments {
  const void* input;
  void* output;
  std::size_t count;
  hvd_type type;
  hvd_op op;
};

struct Request {
  std::string kind;           // "allreduce"
  CallOptions options;        // its name is `name`
  std::string name;           // "": the engine gives it one, by kind and order
  std::int32_t priority = 0;  // of those that are ready, the largest first
  std::function<Result<void>(Communicator&, const CallOptions&)> run;
  std::optional<AllreduceArguments> allreduce;
  std::shared_ptr<DeviceCall> device_call;  // when the buffers are in device memory
};

// `allreduce "grad.3"`, for messages.
inline std::string title_of(const Request& request) {
  return request.kind + " \"" + request.name + '"';
}

}  // namespace libhvd
