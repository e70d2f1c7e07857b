// The user's choice of GPUs or other devices, by a variable such as CUDA_VISIBLE_DEVICES, as it
// goes to other hosts. A plain value.
#pragma once

#include <string>

namespace hvdrun {

struct DeviceChoice {
  std::string name;   // "CUDA_VISIBLE_DEVICES"
  std::string value;  // "0,1"
  // Its numbers count among the devices that SLURM gives a host. Otherwise they are the host's.
  bool counted = false;

  bool operator==(const DeviceChoice&) const = default;
};

}  // namespace hvdrun
