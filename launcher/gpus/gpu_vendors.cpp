#include "gpus/gpu_vendors.hpp"

#include "gpus/nvidia/nvidia_gpus.hpp"

#include <algorithm>

namespace hvdrun {

const GpuVendors& gpu_vendors() {
  static const GpuVendors vendors{nvidia_gpus()};
  return vendors;
}

const GpuVendor* find_gpu_vendor(std::string_view name, const GpuVendors& vendors) {
  const auto found = std::ranges::find(vendors, name, &GpuVendor::name);
  return found == vendors.end() ? nullptr : &*found;
}

}  // namespace hvdrun
