// Ranks as threads, each with an engine, and the requests that tests submit to it.
#pragma once

#include "engine/engine.hpp"
#include "support.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::test {

struct Rank {
  Engine& engine;
  Communicator& communicator;  // for blocking calls
  int rank;
  int size;
};

// Runs the body on one host, then on two.
inline void run_engines(int size, const std::function<void(const Rank&)>& body) {
  run_ranks_everywhere(size, [&](Communicator& communicator) {
    const auto engine = Engine::start(communicator.second());
    ASSERT_TRUE(engine.ok());
    body({**engine, communicator, communicator.rank(), communicator.size()});
    ASSERT_TRUE(communicator.barrier({}).ok());  // no rank leaves before all are done
    (*engine)->stop();
  });
}

// Returns a request to sum the values in place.
inline Request sum_of(const std::string& name, std::vector<float>& values) {
  Request request;
  request.kind = "allreduce";
  request.name = name;
  const AllreduceArguments own{values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_SUM};
  request.allreduce = own;
  request.run = [own](Communicator& communicator, const CallOptions& options) {
    return communicator.allreduce(own.input, own.output, own.count, own.type, own.op, options);
  };
  return request;
}

inline std::int64_t submit(const Rank& rank, Request request) {
  const auto handle = rank.engine.submit(std::move(request));
  EXPECT_TRUE(handle.ok()) << handle.error().message;
  return handle.ok() ? *handle : 0;
}

inline std::string message_of(const Result<void>& outcome) {
  return outcome.ok() ? "" : outcome.error().message;
}

}  // namespace libhvd::test
