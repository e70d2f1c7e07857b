// The settings of the engine, from the environment. Pure functions and values.
//
// The variables are HVD_FUSION_THRESHOLD, HVD_FUSION_LARGEST, HVD_AUTOTUNE, HVD_AUTOTUNE_LOG,
// HVD_CACHE_CAPACITY, HVD_DATA_CHECK_DISABLE, HVD_STALL_CHECK_DISABLE, HVD_STALL_CHECK_TIME_SECONDS
// and HVD_STALL_SHUTDOWN_TIME_SECONDS. If one of these is unset,
// Horovod's variable applies, which has HOROVOD_ in the place of HVD_ (Horovod 0.28.1,
// horovod/common/common.h). HOROVOD_CYCLE_TIME is ignored, because this engine has no cycle.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace libhvd {

// Which tensors in host memory are fused.
struct FusionLimits {
  std::size_t together = 64 * 1024;  // bytes of all fused tensors together; 0: no fusion
  // Bytes of one tensor. For a larger one, packing usually costs more than fusion gains.
  std::size_t each = 4 * 1024;
  bool operator==(const FusionLimits&) const = default;
};

struct EngineSettings {
  FusionLimits fusion = {};
  bool autotune = false;              // rank 0 searches for better limits (autotune.hpp)
  std::string autotune_log = {};      // its file; empty: none
  std::size_t cache_capacity = 4096;  // names of repeated steps; 0: no cache
  bool data_check = true;             // rank 0 says if all send the same gradients
  bool stall_check = true;            // false: the next two are ignored
  // A collective that waits this long for other ranks is reported; 0: never.
  std::chrono::milliseconds stall_warning{60'000};
  // A collective that waits this long for other ranks is an error; 0: never.
  std::chrono::milliseconds stall_error{0};
};

// Error (HVD_ERROR_ENVIRONMENT): the value of a variable is not valid. The message names both.
Result<EngineSettings> read_engine_settings(const Environment& environment);

}  // namespace libhvd
