// Which GPU of its host a rank uses, see hvd_local_device. Pure functions, for any thread.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"

#include <optional>

namespace libhvd {

// What the environment says about a rank's GPUs.
struct GivenDevices {
  std::optional<int> own;      // HVD_LOCAL_DEVICE, set by hvdrun
  std::optional<int> visible;  // how many CUDA_VISIBLE_DEVICES lists
};

// Error: HVD_LOCAL_DEVICE is not valid. CUDA_VISIBLE_DEVICES may be anything.
Result<GivenDevices> read_devices(const Environment& environment);

// Returns the index of the rank's GPU among those that it sees: the one that hvdrun has chosen,
// otherwise its local rank. It begins again at 0 where the rank sees fewer GPUs: a wrapper, srun
// or MIG may show it only one.
int local_device(const GivenDevices& given, int local_rank);

}  // namespace libhvd
