// The user's choice of GPUs or other devices, by a variable such as CUDA_VISIBLE_DEVICES, as it
// goes to other hosts; and which variables make one. Plain values.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace hvdrun {

// Those that schedulers set in a job with GPUs.
inline constexpr std::array<std::string_view, 4> kGivenDeviceVariables{
    "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"};

// Returns whether the variable chooses devices: one of those, or by the end of its name.
inline bool is_device_variable(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEnds{"_VISIBLE_DEVICES", "_VISIBLE_CORES",
                                                  "_VISIBLE_MODULES", "_VISIBLE_CHIPS"};
  return std::ranges::count(kGivenDeviceVariables, name) > 0 || name == "ONEAPI_DEVICE_SELECTOR" ||
         std::ranges::any_of(kEnds, [name](const auto end) { return name.ends_with(end); });
}

struct DeviceChoice {
  std::string name;   // "CUDA_VISIBLE_DEVICES"
  std::string value;  // "0,1"
  // Its numbers count among the devices that a scheduler gives a host. Otherwise they are the
  // host's.
  bool counted = false;

  bool operator==(const DeviceChoice&) const = default;
};

}  // namespace hvdrun
