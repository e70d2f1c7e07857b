// A collective that was submitted to the engine.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"

#include <cstddef>
#include <functional>
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
  std::string kind;     // "allreduce"
  CallOptions options;  // its name is `name`
  std::string name;     // "": the engine gives it one, by kind and order
  std::function<Outcome(Communicator&, const CallOptions&)> run;
  std::optional<AllreduceArguments> allreduce;
};

}  // namespace libhvd
