// NVIDIA's row in the table of vendors: visible_gpus.hpp lists its GPUs, nvml_watch.hpp watches
// them. A value; GpuVendor says which thread uses it.
#pragma once

#include "gpus/nvidia/nvml.hpp"
#include "model/gpu_vendor.hpp"

#include <string>

namespace hvdrun {

// `library`: NVML, which is opened by the row's functions only.
GpuVendor nvidia_gpus(const std::string& library = kNvmlLibrary);

}  // namespace hvdrun
