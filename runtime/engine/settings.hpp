// What the user may set of the engine.
//
// Read from HVD_FUSION_THRESHOLD, HVD_CACHE_CAPACITY, HVD_STALL_CHECK_DISABLE,
// HVD_STALL_CHECK_TIME_SECONDS and HVD_STALL_SHUTDOWN_TIME_SECONDS, and where one of these is unset
// from Horovod's variable, which has HOROVOD_ in the place of HVD_ (Horovod 0.28.1,
// horovod/common/common.h). HOROVOD_CYCLE_TIME is not read: there is no cycle here.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <chrono>
#include <cstddef>

namespace libhvd {

struct EngineSettings {
  std::size_t fusion_bytes = 64 * 1024;  // of tensors that go together, in all; 0: each goes alone
  std::size_t cache_capacity = 4096;     // names of repeated steps; 0: no cache
  bool stall_check = true;               // else neither of the next two counts
  // A collective that waits for other ranks is told after this time, and is an error after that
  // one; 0: never.
  std::chrono::milliseconds stall_warning{60'000};
  std::chrono::milliseconds stall_error{0};
};

// Error (HVD_ERROR_ENVIRONMENT): one of the variables holds nonsense. It names variable and value.
Result<EngineSettings> read_engine_settings(const Environment& environment);

}  // namespace libhvd
